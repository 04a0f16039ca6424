"""Reports full of what a subject may put into names, messages and paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import cycle
from typing import Any

from hypothesis import strategies as st
from report_samples import (
    ARTIFACTS,
    FACTS,
    GEMM,
    HEALTHY,
    LAYOUT,
    LEFTOVER,
    NOT_CHECKED,
    SOURCE,
    STEPS,
    SUBJECT,
    UNKNOWN,
    sample,
)

from triage.model import Finding
from triage.report.contract import Report

TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "\x1b[2J\x1b[31mred",
            "\x1b]8;;http://evil\x07click\x1b]8;;\x07",
            "::error file=a::b",
            "\n::set-output name=x::y",
            "##[error]x",
            "[red]markup[/red] [link=http://x]",
            "[/]",
            ":smile:",
            "\u202egnp.exe",
            "a\rb",
            "中" * 90,
            "x" * 300,
            "```\n# heading\n",
            "<script>alert(1)</script>",
            "| a | b |",
            "![i](http://x)",
            "https://example.com",
            "\ue000",
            "",
        ]
    ),
)
#: what is no free text: values of enums, ids, and what the report computes with
FIXED = (
    "found_by", "state", "category", "owner", "confidence", "level", "status", "outcome", "caliber", "env",
    "signature", "verified",
)  # fmt: skip


def poisoned(value: Any, texts: Iterator[str]) -> Any:
    """The value with every free text in it replaced by the next of `texts`."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in fields(value) if f.name not in FIXED]
        return replace(value, **{name: poisoned(getattr(value, name), texts) for name in names})
    if isinstance(value, tuple):
        return tuple(poisoned(item, texts) for item in value)
    if isinstance(value, dict):
        return {name: poisoned(item, texts) for name, item in value.items()}
    return next(texts) if type(value) is str else value


@st.composite
def hostile_reports(draw: st.DrawFn) -> Report:
    """A report on any of the sample findings, every free text of which is hostile."""
    texts = cycle(draw(st.lists(TEXTS, min_size=1, max_size=7)))
    finding: Finding = poisoned(draw(st.sampled_from([GEMM, LAYOUT, UNKNOWN, HEALTHY])), texts)
    file = finding.location.file if finding.location else "x"
    return sample(
        finding,
        poisoned(LEFTOVER, texts),
        poisoned(LAYOUT, texts),
        subject={**SUBJECT, "path": next(texts)},
        steps=poisoned(STEPS, texts),
        facts=poisoned(FACTS, texts),
        artifacts=poisoned(ARTIFACTS, texts),
        checked=[next(texts)],
        not_checked=poisoned(NOT_CHECKED, texts),
        sources={file: SOURCE if draw(st.booleans()) else "\n".join(next(texts) for _ in range(20))},
        case=next(texts),
    )
