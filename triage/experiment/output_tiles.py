"""The tile of an output that one block writes at once, from the record of its kernel. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from triage.model import Access, KernelRecord, Loop, Statement


def tile_of(record: KernelRecord, output: str) -> tuple[int, int] | None:
    """Rows and columns of the tile in which `output` is written: of a copy its extents, of single stores those of the parallel
    loops around them. None where no statement tells, or several tell different ones; a vector's tile has one row."""
    found = {
        tile for access, loops in _writes(record.statements, output, ()) if (tile := _tile(access, loops)) is not None
    }
    return found.pop() if len(found) == 1 else None


def _writes(
    statements: Sequence[Statement], output: str, loops: tuple[Loop, ...]
) -> Iterator[tuple[Access, tuple[Loop, ...]]]:
    for statement in statements:
        inside = loops
        if statement.loop is not None and statement.loop.kind in ("parallel", "vectorized"):
            inside = (*loops, statement.loop)
        for access in statement.accesses:
            if access.buffer == output and access.mode != "read":
                yield access, loops
        yield from _writes((*statement.body, *statement.orelse), output, inside)


def _tile(access: Access, loops: Sequence[Loop]) -> tuple[int, int] | None:
    sizes = [
        _size(index, extent, loops) for index, extent in zip(access.index[-2:], access.extent[-2:], strict=True)
    ]  # fmt: skip
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or not known or max(known) == 1:
        return None
    return (1, known[0]) if len(known) == 1 else (known[0], known[1])


def _size(index: str, extent: int | None, loops: Sequence[Loop]) -> int | None:
    """How many indices of a dimension one block writes at once; None where that depends on a run."""
    if extent is None or extent > 1:
        return extent
    words = set(re.findall(r"[A-Za-z_]\w*", index))
    size = 1
    for loop in loops:
        if loop.var in words:
            if not isinstance(loop.extent, int):
                return None
            size *= loop.extent
    return size
