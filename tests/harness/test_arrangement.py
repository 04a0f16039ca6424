"""Values that are expected elsewhere: what is put into a random tensor comes out of it, and chance never looks like it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.model import Mismatch, from_json
from triage.numerics.pattern import describe

torch = pytest.importorskip("torch")

EXTENTS = st.sampled_from([16, 24, 32, 40, 48, 64, 96])
SEEDS = st.integers(0, 1 << 20)
FEW = settings(max_examples=12, deadline=None)


@pytest.fixture(scope="module")
def look(harness):
    module = harness("mismatch")

    def of(actual: Any, expected: Any) -> Mismatch:
        wrong = module.wrong_elements(actual, expected, 1e-3, 1e-3, False)
        return from_json(Mismatch, module.summarize(actual, expected, wrong)[0])

    return of


def normal(seed: int, *shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def order(seed: int, count: int) -> Any:
    """An order of so many things in which no one is at its place."""
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    moved = torch.empty_like(shuffled)
    moved[shuffled] = shuffled.roll(1)
    return moved


@FEW
@given(EXTENTS, EXTENTS, st.integers(-5, 5), st.integers(-5, 5), SEEDS, st.sampled_from([torch.float32, torch.float16]))
def test_a_shift_is_told_with_its_length(look, rows, columns, down, right, seed, kind) -> None:
    expected = normal(seed, rows + 16, columns + 16).to(kind)
    actual = expected[8 - down : 8 - down + rows, 8 - right : 8 - right + columns]
    found = look(actual, expected[8 : 8 + rows, 8 : 8 + columns]).arrangement
    if down == right == 0:
        assert found is None
    else:
        assert (found.kind, found.by) == ("shifted", (down, right))


SAID = {
    "shifted 1 row down everywhere": lambda e: e.roll(1, 0),
    "swapped: each 4 columns with the next 4 everywhere": lambda e: e[:, torch.arange(64) ^ 4],
    "duplicated: of every 2 rows all hold what number 0 should in 1 of every 2 rows": (
        lambda e: e[torch.arange(64) // 2 * 2]
    ),
    "negated everywhere": lambda e: -e,
    "displaced in 16 × 64 tiles: (0, 0) holds what (2, 0) should, everywhere": (
        lambda e: e.reshape(4, 16, 64)[[2, 3, 1, 0]].reshape(64, 64)
    ),
}


@pytest.mark.parametrize("said", SAID)
def test_an_arrangement_is_put_into_words(look, said) -> None:
    expected = torch.rand(64, 64, generator=torch.Generator().manual_seed(0)) + 1.0
    assert describe(look(SAID[said](expected), expected)).startswith(said)


@FEW
@given(EXTENTS, EXTENTS, st.booleans(), st.sampled_from([2, 4, 8]), SEEDS)
def test_swapped_halves_are_told(look, rows, columns, across, half, seed) -> None:
    expected = normal(seed, rows, columns)
    source = (
        torch.arange(columns if across else rows) ^ half if (columns if across else rows) % (2 * half) == 0 else None
    )
    if source is None:
        return
    found = look(expected[:, source] if across else expected[source], expected).arrangement
    assert (found.kind, found.by) == ("swapped", (0, half) if across else (half, 0))


@FEW
@given(EXTENTS, EXTENTS, st.booleans(), st.sampled_from([2, 4, 8]), st.integers(0, 7), SEEDS)
def test_duplicates_are_told_with_the_one_that_is_repeated(look, rows, columns, across, group, kept, seed) -> None:
    expected, kept = normal(seed, rows, columns), kept % group
    source = torch.arange(columns if across else rows) // group * group + kept
    found = look(expected[:, source] if across else expected[source], expected).arrangement
    assert (found.kind, found.by, found.first) == ("duplicated", (0, group) if across else (group, 0), (kept,))


@FEW
@given(st.integers(3, 6), st.integers(1, 3), st.sampled_from([(8, 8), (16, 4), (4, 16), (32, 32)]), SEEDS)
def test_displaced_tiles_are_told_with_the_first_and_its_source(look, down, across, tile, seed) -> None:
    tiles = normal(seed, down * across, *tile)
    moved = order(seed, len(tiles))

    def laid(chosen: Any) -> Any:
        return chosen.reshape(down, across, *tile).transpose(1, 2).reshape(down * tile[0], across * tile[1])

    found = look(laid(tiles[moved]), laid(tiles)).arrangement
    assert found is not None and found.kind in ("displaced-tiles", "shifted", "swapped")
    if found.kind == "displaced-tiles" and found.tile == tile:
        assert found.source[1] * across + found.source[2] == int(moved[found.first[1] * across + found.first[2]])


@FEW
@given(st.integers(2, 5), st.integers(1, 3), SEEDS)
def test_values_in_another_order_within_tiles_are_told(look, down, across, seed) -> None:
    tiles = normal(seed, down * across, 64)
    moved = tiles[:, order(seed, 64)]

    def laid(chosen: Any) -> Any:
        return chosen.reshape(down, across, 8, 8).transpose(1, 2).reshape(down * 8, across * 8)

    found = look(laid(moved), laid(tiles)).arrangement
    assert found is not None and found.kind == "mixed-tiles" and set(found.tile) <= {8, 16, 24, 32, 40}


WRONG = {
    "other values": lambda e, other: other,
    "some other values": lambda e, other: torch.where(other > 0.5, other, e),
    "noise": lambda e, other: e + 0.1 * other,
    "one amount more": lambda e, other: e + 0.5,
    "a sum that stops early": lambda e, other: e - 0.5 * other,
    "constant": lambda e, other: torch.full_like(e, 0.25),
    "sorted squares": lambda e, other: e * e,
}
EXPECTED = {
    "random": lambda x: x,
    "ones": torch.ones_like,
    "few values": torch.sign,
    "mostly zero": lambda x: torch.where(x > 1, x, 0.0),
    "zero rows at the end": lambda x: torch.cat([x[: len(x) // 2], torch.zeros_like(x[len(x) // 2 :])]),
    "counted": lambda x: torch.arange(x.numel(), dtype=torch.float32).reshape(x.shape),
    "equal rows": lambda x: x[:1].expand_as(x).contiguous(),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("expected", EXPECTED)
@settings(max_examples=2, deadline=None)
@given(EXTENTS, EXTENTS, SEEDS)
def test_what_is_wrong_otherwise_is_no_arrangement(look, wrong, expected, rows, columns, seed) -> None:
    right = EXPECTED[expected](normal(seed, rows, columns))
    assert look(WRONG[wrong](right, normal(seed + 1, rows, columns)), right).arrangement is None


def test_small_whole_numbers_are_found_everywhere_and_show_nothing(look) -> None:
    expected = torch.randint(0, 3, (64, 64), generator=torch.Generator().manual_seed(0))
    assert look(expected.roll(1, 0), expected).arrangement is None
    many = torch.randint(0, 1000, (64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    assert look(many.roll(1, 0), many).arrangement.by == (1, 0)
