"""The tile of an output that one block writes at once, which block that is, and of which loop a factor is a part. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from triage.lints.arithmetic import linear, parse
from triage.model import Access, KernelRecord, Loop, Statement

#: loops that may sum up a product part by part
REDUCING = ("serial", "pipelined", "unrolled")
#: a factor is a fraction of a loop if it differs by no more than this part of it
ROUNDED = 0.01


def tile_of(record: KernelRecord, output: str) -> tuple[int, int] | None:
    """Rows and columns of the tile in which `output` is written: of a copy its extents, of single stores those of the parallel
    loops around them. None where no statement tells, or several tell different ones; a vector's tile has one row."""
    found = {
        tile for access, loops in _writes(record.statements, output, ()) if (tile := _tile(access, loops)) is not None
    }
    return found.pop() if len(found) == 1 else None


def block_of(record: KernelRecord, output: str, start: Sequence[int]) -> dict[str, int] | None:
    """The block that writes the tile of `output` that begins at `start`, an index a dimension, by the names in the only statement that
    writes it. None where there are several, or an index is not a multiple of one name."""
    writes = list(_writes(record.statements, output, ()))
    if len(writes) != 1 or len(writes[0][0].index) != len(start):
        return None
    access, loops = writes[0]
    inner = {loop.var for loop in loops if loop.min == 0}
    found: dict[str, int] = {}
    for index, place in zip(access.index, start, strict=True):
        parsed = parse(index)
        form = linear(parsed) if parsed is not None else None
        if form is None:
            return None
        names = [name for name in form if name and name not in inner]
        rest = place - form.get("", 0)
        if len(names) > 1 or (names and rest % form[names[0]]) or (not names and rest):
            return None
        if names and found.setdefault(names[0], rest // form[names[0]]) != rest // form[names[0]]:
            return None
    return found


def counted_rounds(record: KernelRecord, ratio: float) -> tuple[int, int, str] | None:
    """How many rounds of which loop a common factor is the part of, as (counted, all, name of its variable), if only one loop fits."""
    loops = {
        (s.loop.var, s.loop.extent) for s in every_statement(record.statements) if s.loop and s.loop.kind in REDUCING
    }
    fits = [
        (counted, extent, var)
        for var, extent in loops
        if isinstance(extent, int) and 0 < (counted := round(ratio * extent)) < extent
        and abs(ratio * extent - counted) <= ROUNDED * counted
    ]  # fmt: skip
    return fits[0] if len(fits) == 1 else None


def every_statement(statements: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a kernel, in program order."""
    for statement in statements:
        yield statement
        yield from every_statement((*statement.body, *statement.orelse))


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
