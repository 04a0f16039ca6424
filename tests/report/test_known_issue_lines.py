"""What both reports say of a known issue, by the release that is installed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from report_samples import LAYOUT, sample

from triage.knowledge.upstream import Issue, entry
from triage.report import markdown
from triage.report.terminal import render

ISSUE = Issue(
    "tile-ai/tilelang#1648", "TMA copies wait at a barrier that nobody declares", "barriers", ("<0.1.9",), ("thread",),
    fixed_in="0.1.9", switches=(("tl.disable_tma_lower", True),),
)  # fmt: skip


def words(text: str) -> str:
    """The text without line breaks, margins and the backslashes of Markdown."""
    return re.sub(r"[\s│]+", " ", text.replace("\\", ""))


@pytest.mark.parametrize(
    ("installed", "said", "never"),
    [
        (
            "0.1.8",
            "The installed 0.1.8 has it. Upgrade to 0.1.9 or later, or set tl.disable_tma_lower=True.",
            "not seen",
        ),
        ("0.1.13", "it is fixed since 0.1.9, and 0.1.13 is installed", "Upgrade"),
        ("0.1.15", "it is fixed since 0.1.9, and 0.1.15 is installed", "Upgrade"),
        (
            None,
            "It is fixed in 0.1.9; which version is installed was not seen. Set tl.disable_tma_lower=True.",
            "Upgrade",
        ),
    ],
)
def test_an_upgrade_is_advised_to_the_releases_that_need_it(installed: str | None, said: str, never: str) -> None:
    report = sample(replace(LAYOUT, known_issues=(entry(ISSUE, installed),)))
    for text in (words(render(report)), words(markdown.render(report))):
        assert said in text and never not in text
        assert "tile-ai/tilelang#1648" in text


def test_of_many_the_terminal_shows_some_and_says_how_many_more() -> None:
    many = tuple(entry(replace(ISSUE, id=f"o/r#{number}"), "0.1.8") for number in range(9))
    report = sample(replace(LAYOUT, known_issues=many))
    assert "… and 5 more known issues in the full report" in words(render(report))
    assert words(markdown.render(report)).count("Known issue o/r#") == 9
