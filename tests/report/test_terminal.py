"""The first screen: what a newcomer must find on it, and what hostile text must not do to it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hostile import hostile_reports
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import (
    FILE,
    GEMM,
    HEALTHY,
    LAYOUT,
    LEFTOVER,
    SUBJECT,
    UNKNOWN,
    sample,
)
from rich.cells import cell_len

from triage.model import Confidence, Fix, FoundBy, Location, NotChecked, Quote
from triage.report import terminal
from triage.report.contract import Report
from triage.report.source import changed_lines
from triage.report.terminal import render

#: rows of a terminal as it opens; the screen of the richest sample may need a little scrolling, never two screens
SCREEN = 40


def flat(text: str) -> str:
    return " ".join(text.split())


def test_first_screen_of_a_localized_fault() -> None:
    out = render(sample(GEMM))
    assert len(out.splitlines()) <= SCREEN
    assert "TLG014" in out.splitlines()[0] and "T.gemm operands disagree on K" in out.splitlines()[0]
    assert f"{FILE}:17:17 in main" in out
    assert "▶ 17 │                 T.gemm(A_shared, B_shared, C_local)" in out
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("▶ 17"))
    caret = lines[at + 1]
    assert lines[at][caret.index("^") : caret.rindex("^") + 1] == "T.gemm(A_shared, B_shared, C_local)"
    assert "B's tile: (128, 32), K = 128 without transpose_B" in out
    assert "K_A = 32, K_B = 128" in out and "steps/1/stderr, line 31" in out
    assert "Allocate B's tile as (block_K, block_N) [measured here: builds]" in out
    assert '+ B_shared = T.alloc_shared((block_K, block_N), "float16")' in out
    assert "pass transpose_B=True [not run]" in out
    assert "none of these was tried" not in out
    assert "confirmed: the error's own frames lead to this line of your file [measured here]" in flat(out)
    assert "the values the kernel computes; speed: no GPU on this machine [not run]" in flat(out)
    assert "triage resume .triage/matmul-1" in out
    assert ".triage/matmul-1/report.md" in out


def test_labels_stand_below_their_lines() -> None:
    lines = render(sample(GEMM)).splitlines()
    at = next(i for i, line in enumerate(lines) if "B_shared = T.alloc_shared" in line)
    assert "B's tile" in lines[at + 1]


def test_a_classified_fault_admits_that_it_has_no_line() -> None:
    out = render(sample(LAYOUT))
    assert "no line of your file could be singled out" in out
    assert "no available layout found" in flat(out)
    assert "likely: the evidence fits this cause" in out
    assert "The installed 0.1.13 has it. Upgrade to 0.1.14 or later, or split the loop." in flat(out)
    assert "▶" not in out


def test_unknown_says_what_was_looked_at_and_what_to_try() -> None:
    out = render(sample(UNKNOWN))
    assert out.startswith("? ")
    assert "observe-run (finding), read-error (finding)" in flat(out)
    assert "measure-launch" not in out
    assert "TRY NEXT" in out and "triage doctor" in out and "triage resume .triage/matmul-1" in out
    assert "confirmed" not in out and "likely" not in out


def test_healthy_lists_what_was_and_was_not_checked() -> None:
    out = render(sample(HEALTHY))
    assert out.startswith("✓ ")
    assert "✓ 2 kernels lowered for sm_90a [measured here]" in out
    assert "✓ shared memory: 48 KiB of 227 KiB [static]" in out
    assert "NOT CHECKED" in out
    assert "HOW SURE" not in out and "CHANGE" not in out and "WHERE" not in out


def test_a_static_finding_says_so() -> None:
    lint = replace(GEMM, location=Location(FILE, 17, found_by=FoundBy.LINT), confidence=Confidence.LIKELY)
    assert "likely: computed from the captured kernel, without running it [static]" in flat(render(sample(lint)))


def test_a_reading_of_a_log_says_that_nothing_was_run() -> None:
    assert "[not run]" in render(sample(LAYOUT, subject={**SUBJECT, "kind": "log"}, not_checked=()))


def test_fixes_that_were_not_tried_say_so_once() -> None:
    out = render(sample(replace(GEMM, fixes=(Fix("do this"), Fix("or that"))), not_checked=()))
    assert out.count("[not run]") == 1 and "none of these was tried [not run]" in out
    assert "do this [not run]" in render(sample(replace(GEMM, fixes=(Fix("do this"),)), not_checked=()))


def test_without_a_snippet_the_name_at_the_column_is_underlined() -> None:
    lines = render(sample(replace(GEMM, labels=(), location=Location(FILE, 17, 17)))).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("▶ 17"))
    assert lines[at + 1].count("^") == len("T.gemm")


def test_a_long_quote_is_shortened() -> None:
    quote = Quote("E: " + "word " * 300, "stderr", 1)
    assert len([line for line in render(sample(replace(GEMM, quote=quote))).splitlines() if "word" in line]) <= 4


def test_other_findings_and_notes_are_one_line_each() -> None:
    out = render(sample(GEMM, LAYOUT, LEFTOVER))
    assert "TLG020 No layout satisfies all uses of a fragment [measured here]" in flat(out)
    assert "TLP090 A T.print was left in the kernel" in out


def test_long_lists_are_counted_not_shown() -> None:
    many = [NotChecked(f"thing {n}", f"reason {n}") for n in range(30)]
    fixes = tuple(Fix(f"step {n}") for n in range(9))
    out = render(sample(replace(GEMM, fixes=fixes), not_checked=many))
    assert "26 more in the full report" in out
    assert "5 more in the full report" in out
    same = render(sample(GEMM, not_checked=[NotChecked(f"thing {n}", "no GPU") for n in range(30)]))
    assert "and 26 more: no GPU" in flat(same)


def test_paths_below_the_base_are_shown_relative() -> None:
    report = sample(GEMM, case="/home/user/kernels/.triage/matmul-1")
    out = render(report, base="/home/user/kernels")
    assert "WHERE       matmul.py:17:17" in out
    assert "REPORT      .triage/matmul-1/report.md" in out
    assert FILE in render(report, base="/home/user/ker")


@pytest.mark.parametrize("column", [None, 0, 1, 17, 500, -3])
def test_any_column_can_be_drawn(column: int | None) -> None:
    out = render(sample(replace(GEMM, location=Location(FILE, 17, column, found_by=FoundBy.FRAME))))
    assert ("^" in out) == (column == 17)


def test_a_long_line_is_cut_around_the_column() -> None:
    source = "x = [" + "0, " * 100 + "wrong_name, " + "1, " * 100 + "]\n"
    column = source.index("wrong_name") + 1
    finding = replace(GEMM, labels=(), location=Location(FILE, 1, column, "wrong_name"))
    lines = render(sample(finding, sources={FILE: source})).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("▶ 1"))
    caret = lines[at + 1]
    assert lines[at][caret.index("^") : caret.rindex("^") + 1] == "wrong_name"
    assert lines[at].count("…") == 2


def test_tabs_do_not_move_the_caret() -> None:
    finding = replace(GEMM, labels=(), location=Location(FILE, 2, 3, "T.gemm()"))
    lines = render(sample(finding, sources={FILE: "if x:\n\t\tT.gemm()\n"})).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("▶ 2"))
    assert lines[at].index("T.gemm()") == lines[at + 1].index("^")
    assert lines[at + 1].count("^") == len("T.gemm()")


def test_changed_lines_leaves_headers_and_indentation_out() -> None:
    patch = "--- a.py\n+++ b.py\n@@ -1,3 +1,3 @@\n context\n-    a = 1\n+    a = 2\n+      b\n"
    assert changed_lines(patch) == ["- a = 1", "+ a = 2", "+   b"]
    assert changed_lines("") == []


class Stream(io.StringIO):
    def __init__(self, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self._tty, self._encoding = tty, encoding

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


@pytest.mark.parametrize(
    ("tty", "environ", "colors"),
    [
        (True, {"TERM": "xterm"}, True),
        (False, {"TERM": "xterm"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colors_only_where_they_are_wanted(tty: bool, environ: dict[str, str], colors: bool) -> None:
    stream = Stream(tty)
    terminal.show(sample(GEMM), stream, environ)
    assert ("\x1b[" in stream.getvalue()) == colors


def test_colors_change_nothing_but_colors() -> None:
    import re

    colored = render(sample(GEMM, LAYOUT, LEFTOVER), color=True)
    plain = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()]
    assert plain == [line.rstrip() for line in render(sample(GEMM, LAYOUT, LEFTOVER)).splitlines()]


def test_the_style_of_a_margin_does_not_spill_into_the_text_beside_it() -> None:
    lines = render(sample(GEMM), color=True).splitlines()
    code = next(line for line in lines if "T.copy(A[by" in line)
    assert code.split("│ ")[1].startswith("\x1b[0m")
    sure = next(line for line in lines if "HOW SURE" in line)
    assert "\x1b[1mHOW SURE    \x1b[0mconfirmed" in sure


def test_an_ascii_stream_gets_ascii() -> None:
    stream = Stream(False, "ascii")
    terminal.show(sample(GEMM), stream, {})
    assert stream.getvalue().isascii()
    assert "> 17 |" in stream.getvalue()


@settings(max_examples=100, deadline=None)
@given(hostile_reports(), st.integers(20, 140))
def test_hostile_text_is_shown_and_never_obeyed(report: Report, width: int) -> None:
    out = render(report, width=width)
    assert not [c for c in out if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202a\u202e\u2066")]
    assert "##[" not in out
    limit = max(terminal.MIN_WIDTH, min(width, terminal.MAX_WIDTH))
    for line in out.split("\n"):
        assert not line.lstrip().startswith("::")
        assert cell_len(line.replace("\\::", "::").replace("##\\[", "##[")) <= limit


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet=st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=400))
def test_wrapping_loses_nothing(text: str) -> None:
    out = render(sample(replace(HEALTHY, summary=text)), width=60)
    body = out.split("\n\n")[0].split("\n", 1)[1]
    assert "".join(body.split()).replace("\\::", "::") == "".join(text.split()).replace("\\::", "::").replace(
        "##[", "##\\["
    )
