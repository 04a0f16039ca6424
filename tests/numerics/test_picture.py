from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.numerics.picture import describe, draw, plane, tiles_of


def mask(rows: int, columns: int, wrong: set[tuple[int, int]]) -> bytes:
    return bytes((i, j) in wrong for i in range(rows) for j in range(columns))


def block(rows: range, columns: range) -> set[tuple[int, int]]:
    return {(i, j) for i in rows for j in columns}


def test_whole_tiles_are_named() -> None:
    tiles = tiles_of(mask(8, 12, block(range(4, 8), range(4))), (8, 12), (4, 4))
    assert tiles.of == (2, 3) and tiles.touched == tiles.whole == ((1, 0),)
    assert describe(tiles) == "1 of 6 tiles of 4 × 4: (1, 0), each wrong throughout"


def test_the_last_tiles_that_are_not_filled_are_told_apart() -> None:
    tiles = tiles_of(mask(8, 10, block(range(8), range(8, 10))), (8, 10), (4, 4))
    assert tiles.form == "cut-tiles" and tiles.touched == ((0, 2), (1, 2))
    assert "those at the end" in describe(tiles)


def test_parts_of_tiles_and_all_tiles() -> None:
    assert tiles_of(mask(8, 8, {(0, 0)}), (8, 8), (4, 4)).form == "parts-of-tiles"
    assert describe(tiles_of(mask(8, 8, block(range(8), range(8))), (8, 8), (4, 4))) == "all 4 tiles of 4 × 4"


def test_a_picture_shows_where_and_how_much() -> None:
    picture = draw(mask(4, 4, {(0, 0), *block(range(2, 4), range(2, 4))}), (4, 4), width=2, height=2).splitlines()
    assert picture[:2] == ["+.", ".#"]
    assert picture[2].startswith("4 rows × 4 columns; each character is 2 × 2")


def test_leading_axes_lie_under_each_other() -> None:
    assert plane((2, 3, 4)) == (6, 4) and plane((5,)) == (1, 5) and plane(()) == (1, 1)


def test_a_mask_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="none of shape"):
        draw(b"\0\1", (3,))


@given(st.integers(1, 40), st.integers(1, 90), st.data())
def test_every_wrong_element_is_seen(rows: int, columns: int, data: st.DataObject) -> None:
    wrong = data.draw(st.sets(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1)), max_size=20))
    bits = mask(rows, columns, wrong)
    drawn = draw(bits, (rows, columns)).splitlines()[:-1]
    assert any(cell != "." for line in drawn for cell in line) == bool(wrong)
    tile = data.draw(st.tuples(st.integers(1, 16), st.integers(1, 16)))
    assert set(tiles_of(bits, (rows, columns), tile).touched) == {(i // tile[0], j // tile[1]) for i, j in wrong}
