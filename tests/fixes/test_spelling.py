"""Which known words are near a misspelt one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.fixes.spelling import distance, nearest

WORDS = st.text("abcXY_", max_size=7)


@given(WORDS, WORDS)
def test_distance_is_symmetric_and_zero_only_for_the_same(one, other):
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)


@given(WORDS, st.integers(0, 7), st.sampled_from("abz"))
def test_one_letter_more_is_one_away(word, at, letter):
    assert distance(word, word[:at] + letter + word[at:]) == 1


@pytest.mark.parametrize(
    ("wrong", "known", "first"),
    [
        ("claer", ["clear", "ceil", "cumsum"], "clear"),
        ("alloc_sharedd", ["alloc_shared", "alloc_fragment"], "alloc_shared"),
        ("float17", ["float16", "float32", "bfloat16"], "float16"),
        ("trans_B", ["transpose_A", "transpose_B", "policy"], "transpose_B"),
        ("pipeline_stages", ["num_stages", "order"], "num_stages"),
        ("GEMM", ["gemm", "fill"], "gemm"),
    ],
)
def test_the_nearest_word_comes_first(wrong, known, first):
    assert nearest(wrong, known)[0][1] == first


def test_words_that_are_equally_near_are_equally_far():
    assert nearest("expp", ["exp", "exp2", "log"]) == [(1, "exp"), (1, "exp2")]


def test_nothing_is_near_a_word_of_its_own():
    assert nearest("frobnicate", ["gemm", "copy", "fill"]) == []


def test_of_too_many_equally_near_names_none_is_offered():
    assert nearest("alloc", [f"alloc_{n}" for n in range(9)]) == []
    assert nearest("allocc", ["alloc", *(f"allocc_{n}" for n in range(9))]) == [(1, "alloc")]
