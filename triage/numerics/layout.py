"""Layouts as small pictures: which thread holds an element, and where it lies in shared memory. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

#: rows and columns of a picture
ROWS, COLUMNS = 16, 12
WARP = 32
#: threads that are named one by one
NAMED = 8
#: of the elements of the threads that are named, this part has to be wrong: some are right by chance
NEARLY_ALL = 0.95


@dataclass(frozen=True)
class Layout:
    """Where the elements of a buffer lie, in row-major order.

    `index` is the place in the buffer's memory, of a fragment in the registers of a thread; `threads` holds for every replica the
    thread of each element, none for shared memory. `why` says why both are empty.
    """

    buffer: str
    scope: str
    shape: tuple[int, ...]
    threads: tuple[tuple[int, ...], ...] = ()
    index: tuple[int, ...] = ()
    why: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Layout:
        """From what a lowering told (`harness/inferred.py`)."""
        return cls(
            str(data["buffer"]), str(data["scope"]), tuple(data["shape"]), tuple(map(tuple, data.get("threads", ()))),
            tuple(data.get("index", ())), str(data.get("why", "")),
        )  # fmt: skip

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.shape[-1] if self.shape else 1

    @property
    def group(self) -> int:
        """How many elements of a row always lie one behind the other: the greatest power of two."""
        size = 1
        while self.columns % (2 * size) == 0 and all(
            self.index[n] - self.index[n - n % (2 * size)] == n % (2 * size) for n in range(len(self.index))
        ):
            size *= 2
        return size

    @property
    def in_order(self) -> bool:
        """Whether memory holds the elements row by row."""
        return self.index == tuple(range(len(self.index)))


def describe(layout: Layout) -> str:
    """A layout in a line: `c: 64 × 64 elements in the registers of 128 threads, 32 in each`."""
    size = " × ".join(map(str, layout.shape))
    if layout.why:
        return f"{layout.buffer}: {size}, {layout.why}"
    if layout.threads:
        threads = {thread for replica in layout.threads for thread in replica}
        said = f"{size} elements in the registers of {len(threads)} threads ({min(threads)} to {max(threads)}), {max(layout.index) + 1} in each"
        return f"{layout.buffer}: {said}" + (f", {len(layout.threads)} copies" if len(layout.threads) > 1 else "")
    order = "row by row" if layout.in_order else f"permuted in groups of {layout.group}"
    return f"{layout.buffer}: {size} elements in shared memory, {order}"


def draw(layout: Layout) -> str:
    """The first rows and columns: of a fragment `thread.register` an element, of shared memory the place of each group of elements
    that lie one behind the other, counted in such groups."""
    if layout.why:
        return describe(layout)
    step = 1 if layout.threads else layout.group
    rows, across = math.prod(layout.shape[:-1]), layout.columns // step
    cells = [
        [_cell(layout, row * layout.columns + column * step, step) for column in range(min(across, COLUMNS))]
        for row in range(min(rows, ROWS))
    ]
    width = max(len(cell) for line in cells for cell in line)
    lines = [" ".join(cell.rjust(width) for cell in line) + (" …" if across > COLUMNS else "") for line in cells]
    what = (
        "thread.register of each element" if layout.threads else f"the place of each group of {step}, counted in groups"
    )
    shown = f"{len(cells)} of {rows} rows; {what}"
    return "\n".join([describe(layout), *lines, shown])


def _cell(layout: Layout, element: int, step: int) -> str:
    place = layout.index[element]
    return f"{layout.threads[0][element]}.{place}" if layout.threads else f"{place // step}"


def owners(layout: Layout, wrong: Collection[tuple[int, int]]) -> str:
    """Whose elements these are, as (row, column) of a fragment of two dimensions: `warp 1`, `threads 3, 7`; empty unless they are all
    elements of some threads and no others, and no rectangle, which needs no layout to be told."""
    if not layout.threads or len(layout.shape) != 2 or not wrong or is_rectangle(wrong):
        return ""
    places = {row * layout.columns + column for row, column in wrong}
    everyone = {thread for replica in layout.threads for thread in replica}
    mine = {replica[place] for replica in layout.threads for place in places}
    held = {n for n in range(len(layout.index)) if any(replica[n] in mine for replica in layout.threads)}
    if mine == everyone or len(places) < NEARLY_ALL * len(held):
        return ""
    warps = sorted({thread // WARP for thread in mine})
    whole = {thread for thread in everyone if thread // WARP in warps}
    names, word = (warps, "warp") if mine == whole else (sorted(mine), "thread")
    listed = ", ".join(map(str, names[:NAMED])) + (f" … ({len(names)})" if len(names) > NAMED else "")
    return f"{word}{'s' * (len(names) > 1)} {listed}"


def is_rectangle(places: Collection[tuple[int, int]]) -> bool:
    """Whether places fill a rectangle of rows and columns that lie side by side."""
    rows, columns = [p[0] for p in places], [p[1] for p in places]
    return len(set(places)) == (max(rows) - min(rows) + 1) * (max(columns) - min(columns) + 1)
