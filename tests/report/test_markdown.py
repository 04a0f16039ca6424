"""The full report: everything is in it, and foreign text cannot leave its container."""

from __future__ import annotations

from dataclasses import replace

from hostile import hostile_reports
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_samples import FILE, GEMM, HEALTHY, LAYOUT, LEFTOVER, UNKNOWN, sample

from triage.model import Quote
from triage.report.contract import Report
from triage.report.markdown import code, fence, prose, render

PARSER = MarkdownIt("gfm-like", {"linkify": False})


def headings(text: str) -> list[str]:
    tokens = PARSER.parse(text)
    return [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]


def test_it_holds_all_of_a_localized_fault() -> None:
    out = render(sample(GEMM, LAYOUT, LEFTOVER))
    assert headings(out) == [
        "TLG014: T.gemm operands disagree on K",
        "Where",
        "Why",
        "What to change",
        "How sure",
        "Not checked",
        "Also found: TLG020: No layout satisfies all uses of a fragment",
        "Why",
        "How sure",
        "Notes",
        "Walk",
        "Facts",
        "Environments",
        "Artifacts",
    ] or "Checked" in headings(out)
    for piece in (
        "`/home/user/kernels/matmul.py:17:17`",
        "▶ 17 │",
        "```diff",
        "measured here: builds",
        "error.text is known",
        "`kernel.shared_bytes`",
        "`49152`",
        "needs cuda",
        "triage resume .triage/matmul-1",
        "`aaaaaaaaaaaaaaaa`",
        "virtual:sm_90a",
    ):
        assert piece in out, piece


def test_states() -> None:
    assert "**No fault found**" in render(sample(HEALTHY))
    assert "## Checked" in render(sample(HEALTHY))
    unknown = render(sample(UNKNOWN))
    assert "## What was looked at" in unknown and "`observe-run`: finding" in unknown
    assert "## Where" not in render(sample(LAYOUT))


def test_tables_have_as_many_cells_as_columns() -> None:
    report = sample(GEMM)
    report["walk"][0]["why"] = "a | b `c` \n d"
    tokens = PARSER.parse(render(report))
    assert sum(token.type == "th_open" for token in tokens) == 9 + 7 + 5 + 3
    assert sum(token.type == "td_open" for token in tokens) == 9 * 3 + 7 * 2 + 5 * 1 + 3 * 1
    walk = next(token.content for token in tokens if token.type == "inline" and "a | b" in token.content)
    assert walk == "``a | b `c` d``"


@given(st.text(alphabet="`~ab\n|", max_size=60))
def test_a_fence_holds_its_text(text: str) -> None:
    tokens = PARSER.parse(fence(text))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content.strip("\n") == text.strip("\n")


@given(st.text(alphabet="` ab", min_size=1, max_size=30).filter(lambda t: t.strip()))
def test_a_code_span_holds_its_text(text: str) -> None:
    children = PARSER.parse(code(text))[1].children or []
    assert [child.type for child in children] == ["code_inline"]
    assert " ".join(children[0].content.split()) == " ".join(text.split())


@settings(max_examples=80, deadline=None)
@given(hostile_reports())
def test_hostile_text_adds_no_structure(report: Report) -> None:
    out = render(report)
    tokens = PARSER.parse(out)
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "hr", "code_block"}
    known = (
        "Where", "Why", "What to change", "How sure", "What was looked at", "Checked", "Not checked", "Notes", "Walk",
        "Pictures", "Facts", "Environments", "Artifacts",
    )  # fmt: skip
    _, *others = headings(out)
    assert all(h in known or h.startswith("Also found:") for h in others)
    assert not any(line.lstrip().startswith("::") for line in out.split("\n"))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab1 _*-+=#.)([]<>&|~$`\\\\!\n", max_size=40).filter(lambda t: t.strip()))
def test_prose_is_plain_text(text: str) -> None:
    tokens = PARSER.parse(prose(text))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert {child.type for child in tokens[1].children or []} <= {"text", "text_special"}
    assert "".join(child.content for child in tokens[1].children or []) == " ".join(text.split())


def test_a_quote_with_fences_stays_in_its_fence() -> None:
    quote = Quote("```\n# not a heading\n~~~~\n<b>", "x`y", 3)
    tokens = PARSER.parse(render(sample(replace(GEMM, quote=quote))))
    assert any(t.type == "fence" and t.content.startswith("```\n# not a heading") for t in tokens)
    assert FILE in render(sample(GEMM))
