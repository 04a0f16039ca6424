"""What a comparison cannot see: what is said of its parameters, and what is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.numerics.hidden_faults import Blind, Comparing, blind_spots

UPSTREAM = Comparing(
    "tilelang.utils.tensor.torch_assert_close", (4096, 4096), "float16", 1e-2, 1e-3, max_mismatched_ratio=0.001, equal_nan=True
)  # fmt: skip
STRICT = Comparing("torch.testing.assert_close", (4096, 4096), "float16", 1e-3, 1e-2)


def kinds(comparing: Comparing) -> set[str]:
    return {one.kind for one in blind_spots(comparing)}


def test_a_sound_comparison_is_not_accused() -> None:
    assert blind_spots(STRICT) == ()


def test_upstream_defaults_let_a_tile_be_wrong() -> None:
    found = blind_spots(UPSTREAM)
    assert [one.kind for one in found] == ["mismatches-cover-a-tile", "nan-agrees"]
    assert "(the default of tilelang.utils.tensor.torch_assert_close) lets 16777 of 16777216" in found[0].says


def test_a_tail_is_smaller_than_a_tile() -> None:
    """4096 x 4000 in tiles of 128 x 128 ends in tiles of 128 x 32: 4096 elements, where 16384 may be wrong."""
    tail = replace(UPSTREAM, shape=(4096, 4000), tile=(128, 128), max_mismatched_ratio=0.0003, equal_nan=False)
    found = blind_spots(tail)
    assert "the last tile (128x32) holds 4096" in found[0].says
    assert kinds(replace(tail, shape=(4096, 4096))) == set()


@given(st.integers(1, 600), st.integers(1, 600), st.sampled_from([16, 64, 128]), st.floats(0, 0.02))
def test_a_ratio_is_accused_if_and_only_if_a_whole_tile_may_be_wrong(
    rows: int, columns: int, side: int, ratio: float
) -> None:
    parts = [(np.diff(np.append(np.arange(0, n, side), n))).min() for n in (rows, columns)]
    hides = int(rows * columns * ratio) >= parts[0] * parts[1]
    comparing = replace(STRICT, shape=(rows, columns), tile=(side, side), max_mismatched_ratio=ratio)
    assert ("mismatches-cover-a-tile" in kinds(comparing)) == (hides and ratio > 0)


def test_small_tensors_allow_nothing_to_be_wrong() -> None:
    assert "mismatches-cover-a-tile" not in kinds(replace(UPSTREAM, shape=(16, 16)))


def test_a_vector_has_tiles_of_its_own() -> None:
    assert "mismatches-cover-a-tile" in kinds(replace(UPSTREAM, shape=(1 << 20,), tile=(256,)))
    assert "mismatches-cover-a-tile" not in kinds(replace(UPSTREAM, shape=(1 << 10,), tile=(256,)))
    assert kinds(replace(STRICT, shape=(), max_mismatched_ratio=0.5)) == set()


@pytest.mark.parametrize(
    ("changed", "kind", "hides"),
    [
        (replace(STRICT, equal_nan=True), "nan-agrees", True),
        (replace(STRICT, atol=0.0), "zero-needs-atol", False),
        (replace(STRICT, dtype="float8_e4m3fn", rtol=0.0, atol=0.0), "compared-exactly", False),
        (replace(STRICT, dtype="bfloat16", rtol=0.0, atol=0.0), "compared-exactly", False),
        (replace(STRICT, dtype="int8", rtol=0.0, atol=0.0), "compared-exactly", False),
        (replace(STRICT, atol=1.0, rms_expected=0.5), "atol-covers-all", True),
        (replace(STRICT, rtol=0.1), "loose", True),
    ],
)  # fmt: skip
def test_each_blind_spot_alone(changed: Comparing, kind: str, hides: bool) -> None:
    (found,) = blind_spots(changed)
    assert isinstance(found, Blind) and (found.kind, found.hides) == (kind, hides)


@pytest.mark.parametrize(
    "sound",
    [
        replace(STRICT, dtype="int32", rtol=0.0, atol=0.0), replace(STRICT, dtype="int64", equal_nan=True),
        replace(STRICT, dtype="float8_e4m3fn", rtol=0.125, atol=0.125), replace(STRICT, atol=1.0, rms_expected=64.0),
        replace(STRICT, dtype="of-somebody", rtol=0.0, atol=0.0), replace(STRICT, rtol=None, atol=None),
    ],
)  # fmt: skip
def test_what_is_right_is_not_accused(sound: Comparing) -> None:
    assert kinds(sound) == set()
