"""The pattern of a mismatch: what is put into a mask comes out of it, at any size."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.model import Arrangement, Axis, Mismatch, Runs
from triage.numerics.decided import RARE, may_be_decided_by_rounding
from triage.numerics.pattern import FEW, Pattern, alike, describe, pattern_of

Mask = dict[tuple[int, ...], bool]


def runs_of(chosen: list[bool]) -> Runs:
    """The runs of a list, counted plainly."""
    found = []
    for value, group in itertools.groupby(enumerate(chosen), key=lambda pair: pair[1]):
        places = [place for place, _ in group]
        if value:
            found.append((places[0], len(places)))
    starts = [start for start, _ in found]
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    lengths = [length for _, length in found[:-1]]
    return Runs(
        sum(chosen), len(found), tuple(found[:16]), found[-1] if found else (),
        (min(gaps), max(gaps)) if gaps else (), (min(lengths), max(lengths)) if lengths else (),
    )  # fmt: skip


def mismatch(shape: tuple[int, ...], wrong: set[tuple[int, ...]], **values) -> Mismatch:
    axes = []
    for axis, extent in enumerate(shape):
        counts = [sum(place[axis] == index for place in wrong) for index in range(extent)]
        line = math.prod(shape) // extent
        axes.append(Axis(extent, runs_of([c > 0 for c in counts]), runs_of([2 * c >= max(line, 1) for c in counts])))
    return Mismatch(shape, "float32", len(wrong), math.prod(shape), tuple(axes), **values)


def places(shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    return set(itertools.product(*map(range, shape)))


shapes = st.tuples(st.integers(4, 24), st.integers(4, 24))


@given(shapes)
def test_all_is_everywhere(shape) -> None:
    assert pattern_of(mismatch(shape, places(shape))).where == ("everywhere",)


@given(shapes, st.data())
def test_last_columns_are_a_tail_and_first_rows_a_head(shape, data) -> None:
    rows, columns = shape
    count = data.draw(st.integers(1, columns - 1))
    tail = {(i, j) for i, j in places(shape) if j >= columns - count}
    assert pattern_of(mismatch(shape, tail)).where == ("tail-columns",)
    head = {(i, j) for i, j in places(shape) if i < min(count, rows - 1)}
    assert pattern_of(mismatch(shape, head)).where == ("head-rows",)
    said = describe(mismatch(shape, tail))
    assert ("the last column " if count == 1 else f"the last {count} columns ") in said


@given(shapes, st.data())
def test_what_is_right_by_chance_does_not_hide_a_tail(shape, data) -> None:
    rows, columns = shape
    count = data.draw(st.integers(2, columns - 1))
    tail = {(i, j) for i, j in places(shape) if j >= columns - count}
    right = data.draw(st.sets(st.sampled_from(sorted(tail)), max_size=min(rows - 1, len(tail) // 4)))
    found = pattern_of(mismatch(shape, tail - right)).where
    assert found == ("tail-columns",) or len({i for i, _ in tail - right}) < rows


@given(st.integers(2, 6), st.integers(1, 5), st.integers(2, 5), st.integers(2, 8))
def test_equal_runs_at_equal_distances_are_periodic(period, length, times, rows) -> None:
    length = min(length, period - 1)
    shape = (rows, period * times)
    wrong = {(i, j) for i, j in places(shape) if j % period >= period - length}
    found = pattern_of(mismatch(shape, wrong)).where
    assert found == (("periodic-columns",) if times > 2 or length > 1 else found)
    assert found != ("everywhere",)


@given(shapes, st.data())
def test_the_edges_of_both_axes(shape, data) -> None:
    rows, columns = shape
    a, b = data.draw(st.integers(1, rows // 3)), data.draw(st.integers(1, columns // 3))
    wrong = {(i, j) for i, j in places(shape) if i >= rows - a or j >= columns - b}
    found = pattern_of(mismatch(shape, wrong)).where
    assert found == (("everywhere",) if 2 * len(wrong) >= rows * columns else ("edge-rows", "edge-columns"))


@given(shapes, st.sets(st.integers(0, 10**6), max_size=40))
def test_any_mask_has_a_pattern_and_words(shape, chosen) -> None:
    every = sorted(places(shape))
    wrong = {every[n % len(every)] for n in chosen}
    one = mismatch(shape, wrong)
    found = pattern_of(one)
    assert (found.where == ("nowhere",)) == (not wrong)
    assert describe(one) and str(found)
    assert alike(found, found) == (True, True)
    if found.where == ("few",):
        assert len(wrong) <= FEW


def test_a_vector_with_holes_has_a_tail() -> None:
    wrong = {(i,) for i in range(900, 1000) if i % 7}
    assert pattern_of(mismatch((1000,), wrong)).where == ("tail-elements",)


def test_one_block_of_a_batch() -> None:
    shape = (4, 8, 8)
    wrong = {(i, j, k) for i, j, k in places(shape) if i == 2}
    one = mismatch(shape, wrong)
    assert pattern_of(one).where == ("band-axis-0",)
    assert "in index 2 of axis-0 " in describe(one)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"nan": 64}, "nan"),
        ({"nan": 3}, "some-nan"),
        ({"inf": 1}, "inf"),
        ({"expected_nan": 1}, "expected-nan"),
        ({"zeros": 64}, "zero"),
        ({"zeros": 32}, "other"),
        ({"transposed": 1.0}, "transposed"),
        ({"ratio": 2.0, "explained": 1.0, "varied": True}, "scaled"),
        ({"ratio": 2.0, "explained": 0.5, "varied": True}, "other"),
        ({"nan": 64, "zeros": 64}, "nan"),
    ],
)
def test_the_values_of_what_is_wrong(values, kind) -> None:
    assert pattern_of(mismatch((8, 8), places((8, 8)), **values)).values == kind


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"inf": 64}, "infinite everywhere (64 of 64 elements)"),
        ({"inf": 3, "not_finite_at": (0, 2)}, "infinite in 3 of 64 elements, the first at [0, 2]; wrong everywhere (64 of 64 elements)"),
        ({"inf": 1, "not_finite_at": (7, 2)}, "infinite in 1 of 64 elements, at [7, 2]; wrong everywhere (64 of 64 elements)"),
        ({"nan": 64}, "NaN everywhere (64 of 64 elements)"),
        ({"nan": 2, "inf": 3, "not_finite_at": (1, 0)}, "NaN in 2 and infinite in 3 of 64 elements, the first at [1, 0]; wrong everywhere"),
        ({"expected_nan": 2, "not_finite_at": (1, 0)}, "compared with NaN in 2 of 64 elements, the first at [1, 0]; wrong everywhere"),
        ({"expected_nan": 64}, "compared with NaN everywhere"),
        ({"zeros": 64}, "zero everywhere"),
        ({"zeros": 62}, "zero in 62 of 64 elements; wrong everywhere"),
        ({"ratio": -1.0, "explained": 1.0, "varied": True}, "negated everywhere"),
        ({"ratio": 2.0, "explained": 0.97, "varied": True}, "nearly all wrong by a factor of 2 everywhere"),
        ({"transposed": 0.97}, "nearly all transposed everywhere"),
    ],
)  # fmt: skip
def test_what_some_are_is_not_said_of_all(values, said) -> None:
    assert describe(mismatch((8, 8), places((8, 8)), **values)).startswith(said)


def test_everywhere_is_said_of_nearly_all_elements_only() -> None:
    shape = (8, 8)
    checks = {place for place in places(shape) if sum(place) % 2}
    assert describe(mismatch(shape, checks)) == "wrong all over (32 of 64 elements)"


def scaled(ratio: float, varied: bool = True) -> Pattern:
    return Pattern(("everywhere",), "scaled", ratio, varied)


OTHER = Pattern(("everywhere",), "other", None, True)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (scaled(2.0), scaled(8.0), True),
        (scaled(2.0), scaled(0.5), False),
        (scaled(2.0), scaled(-2.0), False),
        (scaled(2.0), OTHER, False),
        (OTHER, scaled(2.0, varied=False), True),
        (OTHER, scaled(2.0), False),
        (OTHER, dataclasses.replace(OTHER, values="zero"), False),
        (OTHER, dataclasses.replace(OTHER, values="nan"), False),
    ],
)
def test_which_values_may_be_of_one_fault(one, two, same) -> None:
    assert alike(one, two) == (True, same)


def test_a_few_elements_are_no_pattern_of_many() -> None:
    many, three, one = (pattern_of(mismatch((n, 8), {(i, 7) for i in range(n)})) for n in (8, 3, 1))
    assert {many.where, three.where, one.where} == {("tail-columns",)}
    assert alike(many, many)[0] and not alike(many, three)[0] and not alike(three, one)[0] and alike(three, many)[0]


def test_which_places_may_be_of_one_fault() -> None:
    few, scattered, tail = (dataclasses.replace(OTHER, where=(name,)) for name in ("few", "scattered", "tail-rows"))
    assert alike(few, scattered)[0] and alike(scattered, few)[0]
    assert not alike(few, tail)[0] and not alike(tail, OTHER)[0]


@pytest.mark.parametrize(
    "kind", ["shifted", "swapped", "duplicated", "displaced-tiles", "duplicated-tiles", "mixed-tiles"]
)
def test_an_arrangement_is_like_no_other_wrong_values(kind: str) -> None:
    def pattern(**values) -> Pattern:
        return pattern_of(mismatch((8, 8), places((8, 8)), **values))

    arranged = pattern(arrangement=Arrangement(kind, 1.0))
    assert arranged.values == kind
    assert alike(arranged, arranged) == (True, True)
    others = [
        pattern(),
        pattern(ratio=2.0, explained=1.0),
        pattern(ratio=-1.0, explained=1.0, varied=True),
        pattern(zeros=64),
    ]
    assert not any(alike(arranged, other)[1] or alike(other, arranged)[1] for other in others)


# what the last bit of a sum may decide is rare and lies anywhere; a fault of a tile has a place, or is large
DECIDED = (20, 30)
few_places = st.sets(st.sampled_from(sorted(places(DECIDED))), min_size=1, max_size=int(RARE * 600))


@given(st.floats(1e-9, 1e-3))
def test_a_few_elements_here_and_there_may_be_decided_so_and_whole_tiles_not(error) -> None:
    some = mismatch(DECIDED, {(1, 4), (3, 17), (8, 2), (13, 23), (17, 11)}, max_abs=error)
    assert may_be_decided_by_rounding(some)
    assert not may_be_decided_by_rounding(mismatch(DECIDED, places(DECIDED), max_abs=error))
    tail = mismatch((200, 30), {(199, j) for j in range(30)}, max_abs=error)
    assert tail.wrong <= RARE * tail.total and not may_be_decided_by_rounding(tail)


@given(few_places, st.integers(1, 1 << 20), st.sampled_from(["nan", "inf", "expected_nan"]))
def test_what_is_no_number_was_decided_by_no_rounding(wrong, apart, kind) -> None:
    assert not may_be_decided_by_rounding(mismatch(DECIDED, wrong, max_abs=float(apart), **{kind: 1}))


@given(
    st.sets(st.sampled_from(sorted(places(DECIDED))), min_size=1), st.sampled_from(["int8", "uint8", "int32", "bool"])
)
def test_whole_numbers_that_are_off_by_one_may_be_rounded_otherwise(wrong, dtype) -> None:
    by_one = dataclasses.replace(mismatch(DECIDED, wrong, max_abs=1.0), dtype=dtype)
    assert may_be_decided_by_rounding(by_one)
    by_two = dataclasses.replace(by_one, max_abs=2.0)
    assert not may_be_decided_by_rounding(by_two) or by_two.wrong <= RARE * by_two.total
