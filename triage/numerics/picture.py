"""Wrong elements as a small picture, and as the tiles that hold them. Pure.

A mask has a byte an element, in row-major order, 1 where an element is wrong. Of more than two axes the leading ones are laid under
each other: a picture shows rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: characters of a picture
WIDTH, HEIGHT = 64, 24
RIGHT, SOME, WRONG = ".", "+", "#"
#: tiles that are named one by one
NAMED = 4
#: tiles are wrong at the same positions if each is at this part of those of all
NEARLY_ALL = 0.95


@dataclass(frozen=True)
class Tiles:
    """The tiles of an output that hold wrong elements, as (row, column) counted in tiles; `whole` are wrong throughout.

    `cut` are the touched ones at an end that a tile does not fill.
    """

    tile: tuple[int, int]
    of: tuple[int, int]
    touched: tuple[tuple[int, int], ...]
    whole: tuple[tuple[int, int], ...]
    cut: tuple[tuple[int, int], ...]

    @property
    def form(self) -> str:
        """all-tiles, cut-tiles (only those at an end), whole-tiles (some, and each of them wholly), parts-of-tiles."""
        if len(self.touched) == math.prod(self.of):
            return "all-tiles"
        if self.touched == self.cut:
            return "cut-tiles"
        return "whole-tiles" if self.touched == self.whole else "parts-of-tiles"


def plane(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a mask of this shape."""
    columns = shape[-1] if shape else 1
    return (math.prod(shape[:-1]) if len(shape) > 1 else 1), columns


def unravelled(row: int, leading: Sequence[int]) -> tuple[int, ...]:
    """The index of a row of a picture in the axes before the last one; none of a vector."""
    index = []
    for extent in reversed(leading):
        index.append(row % extent)
        row //= extent
    return tuple(reversed(index))


def tiles_of(mask: bytes, shape: Sequence[int], tile: tuple[int, int]) -> Tiles:
    """Which tiles of `tile` elements hold wrong ones. Raises `ValueError` where mask and shape do not fit."""
    rows, columns = _fitting(mask, shape)
    height, width = tile
    of = (-(-rows // height), -(-columns // width))
    touched, whole, cut = [], [], []
    for i in range(of[0]):
        for j in range(of[1]):
            count, size = _count(
                mask, columns, (i * height, min(rows, (i + 1) * height)), (j * width, min(columns, (j + 1) * width))
            )
            if count:
                touched.append((i, j))
                if count == size:
                    whole.append((i, j))
                if size < height * width:
                    cut.append((i, j))
    return Tiles(tile, of, tuple(touched), tuple(whole), tuple(cut))


def positions(mask: bytes, shape: Sequence[int], tile: tuple[int, int]) -> frozenset[tuple[int, int]] | None:
    """The places in a tile, as (row, column), that are wrong in all whole tiles that hold wrong elements; None where these differ, or
    are everything. Some elements may be right by chance. Raises `ValueError` where mask and shape do not fit."""
    rows, columns = _fitting(mask, shape)
    height, width = tile
    found = []
    for top in range(0, rows - height + 1, height):
        for left in range(0, columns - width + 1, width):
            lines = (mask[row * columns + left : row * columns + left + width] for row in range(top, top + height))
            wrong = {(i, j) for i, line in enumerate(lines) if any(line) for j, value in enumerate(line) if value}
            if wrong:
                found.append(wrong)
    every = frozenset[tuple[int, int]]().union(*found)
    if not every or len(every) == height * width or any(len(wrong) < NEARLY_ALL * len(every) for wrong in found):
        return None
    return every


def describe(tiles: Tiles) -> str:
    """The tiles in words: `3 of 12 tiles of 64 × 64: (2, 0), (2, 1), (2, 2), each wrong throughout`."""
    height, width = tiles.tile
    count, total = len(tiles.touched), math.prod(tiles.of)
    if tiles.form == "all-tiles":
        return f"all {total} tiles of {height} × {width}"
    named = ", ".join(f"({i}, {j})" for i, j in tiles.touched[:NAMED]) + (" …" if count > NAMED else "")
    said = {
        "cut-tiles": "those at the end that the tile does not fill",
        "whole-tiles": "each wrong throughout",
        "parts-of-tiles": "each in part",
    }
    return f"{count} of {total} tiles of {height} × {width}: {named}, {said[tiles.form]}"


def draw(mask: bytes, shape: Sequence[int], width: int = WIDTH, height: int = HEIGHT) -> str:
    """The mask as lines of text, `.` where all is right, `#` where all is wrong, `+` in between."""
    rows, columns = _fitting(mask, shape)
    down, across = _power(-(-rows // height)), _power(-(-columns // width))
    lines = []
    for top in range(0, rows, down):
        cells = (
            _count(mask, columns, (top, min(rows, top + down)), (left, min(columns, left + across)))
            for left in range(0, columns, across)
        )
        lines.append("".join(RIGHT if not count else WRONG if count == size else SOME for count, size in cells))
    scale = f"each character is {down} × {across} elements" if down * across > 1 else "each character is one element"
    return "\n".join([*lines, f"{rows} rows × {columns} columns; {scale}; # wrong, + partly, . right"])


def _power(size: int) -> int:
    """The next power of two: so characters do not cut tiles, which have such sizes."""
    return 1 << max(size - 1, 0).bit_length()


def _fitting(mask: bytes, shape: Sequence[int]) -> tuple[int, int]:
    rows, columns = plane(shape)
    if len(mask) != rows * columns:
        raise ValueError(f"a mask of {len(mask)} bytes is none of shape {tuple(shape)}")
    return rows, columns


def _count(mask: bytes, columns: int, down: tuple[int, int], across: tuple[int, int]) -> tuple[int, int]:
    """Wrong elements of a rectangle, and all of them."""
    wrong = sum(mask.count(1, row * columns + across[0], row * columns + across[1]) for row in range(*down))
    return wrong, (down[1] - down[0]) * (across[1] - across[0])
