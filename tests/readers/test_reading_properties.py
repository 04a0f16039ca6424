"""What holds for any text: no exception, true quotes, indifference to what surrounds an error, linear work."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.model import ErrorRecord, Quote
from triage.readers import Reading, decisive, read_output, split_lines
from triage.readers.lines import Line
from triage.readers.pasted import read_pasted
from triage.readers.repeats import told_once
from triage.readers.traceback import Source
from triage.readers.unwrap import unwrap

LOGS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "logs").glob("*.log"))}
NOISE = [
    "epoch 1/3  loss=0.25",
    "  0%|          | 0/10 [00:00<?, ?it/s]\r 50%|#####     | 5/10",
    "",
    "tensor([[1., 2.],",
    "        [3., 4.]])",
    "INFO: all good",
    "\x1b[32mPASS\x1b[0m latency = 0.12 ms",
    "2026-11-29 22:34:10  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang begins to compile kernel `main`",
]
FRAGMENTS = sorted({line for text in LOGS.values() for line in text.split("\n") if len(line) < 300})


def nobody(_: str) -> bool | None:
    return None


def quotes(reading: Reading) -> list[Quote]:
    def of(error: ErrorRecord) -> list[Quote]:
        own = [error.quote] if error.quote else []
        return own + [quote for cause in error.causes for quote in of(cause)]

    return [q for e in reading.errors for q in of(e)] + [w.quote for w in reading.warnings if w.quote]


def check(text: str) -> Reading:
    reading = read_output(text, "log", nobody)
    raws = text.split("\n")
    for quote in quotes(reading):
        assert quote.artifact == "log"
        assert quote.line is not None
        raw = raws[quote.line - 1].removesuffix("\r")
        assert quote.text == raw[: len(quote.text)]
        assert quote.text == raw or len(quote.text) >= 1000
    for error in reading.errors:
        assert error.origin == "text"
        assert error.quote is not None
        decisive(error)
    return reading


def summary(reading: Reading) -> list[tuple[Any, ...]]:
    def one(error: ErrorRecord) -> tuple[Any, ...]:
        return (
            error.kind,
            error.type,
            error.message,
            error.frames,
            error.named,
            error.mentions,
            error.quote and error.quote.text,
            tuple(one(cause) for cause in error.causes),
        )

    return [one(error) for error in reading.errors] + [
        (w.text, w.at, w.quote and w.quote.text) for w in reading.warnings
    ]


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_any_text(text: str) -> None:
    check(text)


@given(st.binary())
@settings(max_examples=300, deadline=None)
def test_any_bytes(data: bytes) -> None:
    check(data.decode("utf-8", "surrogateescape"))
    check(data.decode("utf-8", "replace"))


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=400, deadline=None)
def test_any_order_of_real_lines(lines: list[str], end: str) -> None:
    check(end.join(lines))


@pytest.mark.parametrize("name", LOGS)
def test_cut_anywhere(name: str) -> None:
    text = LOGS[name]
    cuts = random.Random(name).sample(range(len(text)), k=min(40, len(text)))
    for cut in cuts:
        check(text[:cut])
        check(text[cut:])


@pytest.mark.parametrize("name", LOGS)
def test_doubled(name: str) -> None:
    text = LOGS[name]
    once, twice = check(text), check(text + "\n\n" + text)
    assert [e[:3] for e in summary(twice)[: len(twice.errors)]] == [
        e[:3] for e in summary(once)[: len(once.errors)]
    ] * 2


@pytest.mark.parametrize("name", LOGS)
def test_noise_around_changes_nothing(name: str) -> None:
    text = LOGS[name]
    alone = check(text)
    before, after = "\n".join(NOISE) + "\n\n", "\n\n" + "\n".join(NOISE) + "\n"
    among = check(before + text + after)
    if not alone.errors:  # nothing told: an error must not appear either
        assert not among.errors
    assert summary(among) == summary(alone)
    shift = before.count("\n")
    assert [q.line for q in quotes(among)] == [q.line + shift for q in quotes(alone) if q.line is not None]


@pytest.mark.parametrize("name", LOGS)
def test_what_is_told_twice_is_kept_once_and_in_its_order(name: str) -> None:
    once, twice = check(LOGS[name]), check(LOGS[name] + "\n\n" + LOGS[name])
    assert told_once(twice.errors) == told_once(once.errors)
    assert set(map(id, told_once(once.errors))) <= set(map(id, once.errors))


def prefixed(prefix: str) -> Callable[[str], str]:
    return lambda text: "\n".join(prefix + line for line in text.split("\n"))


@pytest.mark.parametrize(
    "dress",
    [
        lambda text: text.replace("\n", "\r\n"),
        prefixed("2026-11-29T22:34:10.1234567Z "),
        prefixed("[rank0]: "),
        prefixed("2026-11-29T22:34:10Z [rank3]: "),
        prefixed("\x1b[0m"),
        lambda text: text.replace("Error", "\x1b[1;35mError\x1b[0m"),
        lambda text: text.replace("Check", "\x00Check"),
    ],
    ids=["crlf", "ci", "rank", "ci-rank", "reset", "coloured", "nul"],
)
@pytest.mark.parametrize("name", LOGS)
def test_dress_changes_no_reading(name: str, dress: Callable[[str], str]) -> None:
    def plain(reading: Reading) -> list[Any]:
        return [(d.kind, d.type, d.message, d.frames, d.named) for d in map(decisive, reading.errors)]

    assert plain(check(dress(LOGS[name]))) == plain(check(LOGS[name]))


def steps(text: str) -> int:
    """How many lines of Python run while `text` is unwrapped and read."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace if "readers" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        unwrap(text)
        read_output(text, "log", nobody)
    finally:
        sys.settrace(before)
    return count


REPEATED = {
    "headers": "Traceback (most recent call last):\n",
    "frames": '  File "a.py", line 1, in f\n',
    "frames and blanks": '  File "a.py", line 1, in f\n\n',
    "short errors": '  File "a.py", line 1, in f\nValueError: # x\n\n',
    "sources": 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nRuntimeError: #if 1\n\n',
    "chains": 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n\n'
    "During handling of the above exception, another exception occurred:\n\n",
    "sections": "_____ test_a _____\nE   ValueError: x\n",
    "groups": "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: x\n",
    "diagnostics": "x.cu(3): error: no\n    y\n\n",
    "includes": "In file included from a.h:1,\n                 from b.h:2:\n",
    "blanks": "\n\n\n",
    "log lines": "[22:30:12] : Warning: x\n  y\n",
    "crashes": "Segmentation fault (core dumped)\nThread 0x1 (most recent call first):\n",
    "information": "2026-11-29 22:29:21  [TileLang:a:INFO] (b.py:1): x\n",
    "warnings": "2026-11-29 22:29:21  [TileLang:a:WARNING] (b.py:1): x\n",
    "error lines": "ValueError: x\n",
    "marked lines": "> a\nb\n",
    "critical": "2026-11-29 22:29:21  [TileLang:a:CRITICAL] (b.py:1): x\nargs=1\n",
    "embedded": 'ValueError: Traceback (most recent call last):\n  File "a.py", line 1, in f\n',
    "group gutters": "  + + + + Exception Group Traceback (most recent call last):\n",
    "group items": "  +-+---------------- 1 ----------------\n    | ValueError: a\n",
    "remote": 'multiprocessing.pool.RemoteTraceback: \n"""\n',
}


@pytest.mark.parametrize("name", REPEATED)
def test_work_grows_linearly(name: str) -> None:
    small, large = steps(REPEATED[name] * 150), steps(REPEATED[name] * 600)
    assert large < 4 * small * 1.5 + 2_000


class Watched(list[Line]):
    """Lines that count how many of them were handed out, in slices, too."""

    handed = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.handed += len(found) if isinstance(at, slice) else 1
        return found

    def __iter__(self) -> Iterator[Line]:
        self.handed += len(self)
        return super().__iter__()


@pytest.mark.parametrize("text", ["ValueError: x\n", "Compiler says: ptxas error\n", "E   ValueError: x\n", "a\n"])
def test_pasted_lines_are_looked_at_a_few_times_each(text: str) -> None:
    lines = Watched(split_lines(text * 2_000))
    read_pasted(lines, Source("log", nobody))
    assert lines.handed < 20 * len(lines)


@pytest.mark.parametrize(
    "part",
    [
        "a",
        " ",
        "(",
        "`a",
        "Check failed: (",
        " (",
        "a: ",
        "^~",
        "\x1b[",
        "--> x:1",
        '"',
        'File "',
        "\r",
        "/",
        "+ ",
        "a.",
        "1",
        "Aa",
        "at line 1 of ",
        "at line 1",
        "buffer ",
        "=",
        "#",
        "x.cu(3): error: ",
        "line ",
    ],
)
def test_endless_lines(part: str) -> None:
    check("  " + (part + " ") * 3_000 + "+ Exception Group Traceback (most recent call last):\n  | " + part)
    check("x.cu(" + part * 400_000 + "): error: a\nx.cu:" + part * 400_000 + ": error: a\n" + part * 400_000 + "!")
    check("x.cu(3): error: a\n" + part * 400_000 + "!\n  at line " + part * 400_000 + "\n")
    head = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: '
    reading = check(part * 400_000 + "\n" + head + part * 400_000)
    assert [error.type for error in reading.errors][-1:] == ["ValueError"]
