"""Sums over the tiles of a loop, by `T.gemm`, that lose terms: all but those of the last step, or those of the last tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from triage.lints import arithmetic
from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.loops import ITERATED
from triage.lints.operands import gemms
from triage.lints.program import Program, Visit, ranked, shown
from triage.lints.uninitialized import Use, escapes, uses_of
from triage.model import Access, BufferInfo, Loop, Statement


def cleared_each_step(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """An accumulator that every iteration of a loop sets to a value, adds a product to, and does not read.

    What is read after the loop is the product of the last iteration alone. A loop that only repeats the same work, whose
    variable nothing in it uses, loses nothing by that.
    """
    for gemm, buffer, uses in _accumulated(program):
        for statement, loop in _loops_around(gemm):
            inside = [use for use in uses if _is_in(use[0], statement)]
            reset = next((visit for visit, access in inside if _sets_anew(visit, access, buffer, gemm)), None)
            if reset is None:
                continue
            read = any(
                not _is_in(visit, statement) and visit.order > gemm.order and a.mode != "write" for visit, a in uses
            )
            if read and loop.extent != 1 and all(map(_only_adds, inside)) and _uses_variable(program, statement, loop):
                fields = {"buffer": shown(buffer), "loop": loop.var, "extent": loop.extent}
                where = label(gemm.at, "what this adds, the next iteration wipes out") if reset is not gemm else ()
                yield Hazard("accumulator-cleared-each-step", shown(buffer), reset.at, where, fields)
            break


def cut_short(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A loop of constant length that adds up products of the tiles of a tensor, and leaves out what is less than a tile.

    Only where every tensor that the loop reads tile by tile is left with as much, and nothing else in the kernel touches that
    rest: a tensor that was padded to whole tiles is read to its end.
    """
    told: set[str] = set()
    for gemm, _, uses in _accumulated(program):
        for statement, loop in _loops_around(gemm):
            inside = [use for use in uses if _is_in(use[0], statement)]
            if statement.id in told or not all(map(_keeps, inside)):
                continue
            tiled = list(_tiled(program, statement, loop))
            rests = {one.rest for one in tiled}
            if len(rests) != 1 or not all(0 < one.rest < one.tile and _is_left_out(program, one) for one in tiled):
                continue
            told.add(statement.id)
            first = tiled[0]
            fields = {
                "buffer": shown(first.buffer),
                "loop": loop.var,
                "extent": loop.extent,
                "tile": first.tile,
                "size": first.covered + first.rest,
                "rest": first.rest,
                "dimension": first.dimension,
            }
            where = label(first.visit.at, f"{shown(first.buffer)} is read here in tiles of {first.tile}")
            yield Hazard("reduction-cut-short", shown(first.buffer), statement.at, where, fields, "likely")


def _accumulated(program: Program) -> Iterator[tuple[Visit, BufferInfo, list[Use]]]:
    """Every gemm that surely runs, the memory that it adds to, and everything that touches that memory."""
    uses = {buffer.name: (buffer, seen) for buffer, seen in uses_of(program)}
    for gemm, operands in gemms(program):
        found = uses.get(program.owner(operands["C"]).name) if "C" in operands else None
        if found is not None and not gemm.conditional and not escapes(program, found[0]):
            yield gemm, *found


def _loops_around(visit: Visit) -> Iterator[tuple[Statement, Loop]]:
    """The loops around a statement that one thread runs through, from the innermost."""
    for statement in reversed(visit.parents):
        loop = statement.loop
        if loop is not None and loop.kind in ITERATED:
            yield statement, loop


def _is_in(visit: Visit, statement: Statement) -> bool:
    return any(parent is statement for parent in visit.parents)


def _sets_anew(visit: Visit, access: Access, buffer: BufferInfo, gemm: Visit) -> bool:
    """Whether a statement before the gemm gives all of the buffer a value, or the gemm itself begins with zeros."""
    op = visit.statement.op
    if op is None or access.buffer != buffer.name:
        return False
    if visit.statement is gemm.statement:
        return op.params.get("clear_accum") is True
    whole = access.low == access.high == (0,) * len(buffer.shape) and access.extent == buffer.shape
    surely = not (visit.conditional or access.guarded) and visit.order < gemm.order
    return op.name in ("fill", "clear") and access.mode == "write" and whole and surely


def _only_adds(use: Use) -> bool:
    """Whether a statement hands on nothing of an accumulator."""
    visit, access = use
    op = visit.statement.op
    return access.mode == "write" or (op is not None and "gemm" in op.name and access.mode == "readwrite")


def _keeps(use: Use) -> bool:
    """Whether a statement leaves what an accumulator holds in it."""
    visit, access = use
    op = visit.statement.op
    return access.mode == "read" or (op is not None and "gemm" in op.name and op.params.get("clear_accum") is not True)


def _uses_variable(program: Program, statement: Statement, loop: Loop) -> bool:
    """Whether what a loop touches depends on its variable."""
    return any(
        loop.var in arithmetic.names(index)
        for visit in program.visits
        if _is_in(visit, statement)
        for access in visit.statement.accesses
        for text in access.index
        if (index := arithmetic.parse(text)) is not None
    )


@dataclass(frozen=True)
class _Tiled:
    """A tensor that a loop reads tile after tile from its beginning: in which dimension, the size of a tile, how many
    elements all iterations cover, and how many lie behind them."""

    visit: Visit
    buffer: BufferInfo
    dimension: int
    tile: int
    covered: int
    rest: int


def _tiled(program: Program, statement: Statement, loop: Loop) -> Iterator[_Tiled]:
    for visit, access, buffer in program.accesses():
        if (
            not _is_in(visit, statement)
            or buffer.scope != "global"
            or access.mode != "read"
            or not ranked(access, buffer)
        ):
            continue
        for dimension, size in enumerate(buffer.shape):
            low, high, extent = access.low[dimension], access.high[dimension], access.extent[dimension]
            index = arithmetic.parse(access.index[dimension])
            form = arithmetic.linear(index) if index is not None else None
            tile = form.get(loop.var) if form else None
            if tile is None or low != 0 or high is None or extent is None or not access.exact:
                continue
            if isinstance(size, int) and isinstance(loop.extent, int) and high + extent == tile * loop.extent:
                yield _Tiled(visit, buffer, dimension, tile, high + extent, size - high - extent)


def _is_left_out(program: Program, tiled: _Tiled) -> bool:
    """Whether nothing in the kernel may touch the elements of a tensor that lie behind the tiles."""
    for _, access, other in program.accesses():
        if program.owner(other) is not program.owner(tiled.buffer):
            continue
        if other is not tiled.buffer or not ranked(access, other):
            return False
        high, extent = access.high[tiled.dimension], access.extent[tiled.dimension]
        if high is None or extent is None or high + extent > tiled.covered:
            return False
    return not escapes(program, tiled.buffer)
