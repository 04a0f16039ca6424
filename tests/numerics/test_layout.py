"""Layouts as pictures, and whose elements are wrong: by an arrangement of threads that is made up here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.numerics.layout import Layout, describe, draw, is_rectangle, owners
from triage.numerics.picture import positions

ROWS, COLUMNS = 16, 32
PLACES = [(row, column) for row in range(ROWS) for column in range(COLUMNS)]


def thread_of(row: int, column: int) -> int:
    """As tensor cores hold a tile: a pair of columns to a thread, four threads to a row of eight, then the next warp."""
    return row % 8 * 4 + column % 8 // 2 + 32 * (column // 8 % 2)


FRAGMENT = Layout(
    "c", "local.fragment", (ROWS, COLUMNS), (tuple(thread_of(*place) for place in PLACES),),
    tuple(row // 8 * 4 + column // 16 * 2 + column % 2 for row, column in PLACES),
)  # fmt: skip
SWIZZLED = Layout("a", "shared.dyn", (8, 32), index=tuple(r * 32 + (c // 8 ^ r % 4) * 8 + c % 8 for r in range(8) for c in range(32)))  # fmt: skip


def held_by(threads: set[int]) -> list[tuple[int, int]]:
    return [place for place in PLACES if thread_of(*place) in threads]


@given(st.sets(st.integers(0, 63), min_size=1, max_size=8))
def test_the_threads_of_wrong_elements_are_named(threads) -> None:
    wrong = held_by(threads)
    assert not is_rectangle(wrong)
    word = "thread" if len(threads) == 1 else "threads"
    assert owners(FRAGMENT, wrong) == f"{word} {', '.join(map(str, sorted(threads)))}"


def test_a_whole_warp_is_named_as_such() -> None:
    assert owners(FRAGMENT, held_by(set(range(32, 64)))) == "warp 1"


def test_nobody_owns_what_is_no_set_of_threads() -> None:
    mine = held_by({3, 7})
    assert owners(FRAGMENT, mine[: len(mine) // 2]) == ""  # half of what they hold
    assert owners(FRAGMENT, PLACES) == ""
    assert owners(FRAGMENT, [(row, column) for row in range(4) for column in range(COLUMNS)]) == ""  # a block of rows
    assert owners(SWIZZLED, mine) == ""  # shared memory is nobody's


@given(st.sets(st.sampled_from(PLACES), min_size=1, max_size=40))
def test_random_places_have_owners_only_if_they_are_all_theirs(wrong) -> None:
    said = owners(FRAGMENT, wrong)
    if said:
        assert len(held_by({thread_of(*place) for place in wrong})) * 0.95 <= len(wrong)


def test_a_fragment_is_drawn_with_threads_and_registers() -> None:
    lines = draw(FRAGMENT).splitlines()
    assert lines[0] == describe(FRAGMENT) == "c: 16 × 32 elements in the registers of 64 threads (0 to 63), 8 in each"
    assert lines[1].split()[:4] == ["0.0", "0.1", "1.0", "1.1"] and lines[1].endswith(" …")
    assert len(lines) == 18 and max(map(len, lines)) <= 80


def test_swizzled_shared_memory_is_drawn_as_permuted_rows() -> None:
    assert describe(SWIZZLED) == "a: 8 × 32 elements in shared memory, permuted in groups of 8"
    assert [line.split() for line in draw(SWIZZLED).splitlines()[1:3]] == [["0", "1", "2", "3"], ["5", "4", "7", "6"]]


@given(st.integers(1, 3), st.integers(1, 3), st.sets(st.sampled_from(PLACES), min_size=1, max_size=30), st.data())
def test_positions_are_those_that_all_touched_tiles_share(down, across, wrong, data) -> None:
    touched = data.draw(st.sets(st.integers(0, down * across - 1), min_size=1))
    mask = bytearray(down * ROWS * across * COLUMNS)
    for tile in touched:
        for row, column in wrong:
            top, left = tile // across * ROWS, tile % across * COLUMNS
            mask[(top + row) * across * COLUMNS + left + column] = 1
    shape = (down * ROWS, across * COLUMNS)
    assert positions(bytes(mask), shape, (ROWS, COLUMNS)) == wrong
    assert positions(bytes([1] * len(mask)), shape, (ROWS, COLUMNS)) is None


def test_tiles_that_are_wrong_elsewhere_share_no_positions() -> None:
    mask = bytearray(16 * 16)
    for place in range(8):
        mask[place] = mask[8 * 16 + 8 + 16 * place] = 1
    assert positions(bytes(mask), (16, 16), (8, 8)) is None
