from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.knowledge.pattern import PatternError, alternatives, group_names, nested_repeat, specificity


@pytest.mark.parametrize(
    ("pattern", "fragments"),
    [
        ("plain text", (("plain text",),)),
        (r"K_A = (?P<k>\d+), K_B", (("K_A =", ", K_B"),)),
        (r"(?:left|right) side", (("left side",), ("right side",))),
        (r"shape(?: \(wo sparse\))? of", (("shape", "of"),)),
        (r"a(?:b){2}c", (("ab", "c"),)),
        (r"^Error: \[x\]$", (("Error: [x]",),)),
        (r"x(?!bad)y(?=z)", (("x", "y"),)),
        (r"\d+", ((),)),
    ],
)
def test_fragments_are_what_every_match_must_hold(pattern: str, fragments: tuple[tuple[str, ...], ...]) -> None:
    assert alternatives(pattern) == fragments


def test_the_loosest_way_counts() -> None:
    assert specificity("a very long text|short") == 5 and specificity(".*") == 0


def test_a_group_may_be_named_in_two_alternatives() -> None:
    assert group_names(r"a (?P<x>\d)|b (?P<x>\d)(?P<y_1>.)") == {"x", "y_1"}


@pytest.mark.parametrize("pattern", [r"(a+)+", r"(?:\w*\s*)*", r"(?:x|(?:y*z)+)*", r"(?=(a*)*)"])
def test_a_repeat_in_a_repeat_is_seen(pattern: str) -> None:
    assert nested_repeat(pattern)


@pytest.mark.parametrize("pattern", [r"a+b+", r"(?:ab?){1,4}", r"(a{1,8})+", r"(?:a+)?"])
def test_bounded_or_neighbouring_repeats_are_fine(pattern: str) -> None:
    assert not nested_repeat(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "(?P<a", "*", "(?P<x>a)(?P=y)"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        alternatives(pattern)


pieces = st.sampled_from(["ab", "c ", r"\d+", r"\w*", "(?:x|yz)", "(?:q)?", r"[^,]+", "(?P<n>k+)", r"\.", "(?:m|n)?"])


@given(
    st.lists(pieces.filter(lambda p: "<n>" not in p), min_size=1, max_size=6).map("".join),
    st.text("abcxyzqkmn. 01,", max_size=40),
)
def test_a_text_that_matches_holds_all_fragments_of_one_way(pattern: str, text: str) -> None:
    found = re.search(pattern, text)
    if found:
        assert any(all(fragment in found[0] for fragment in way) for way in alternatives(pattern))
