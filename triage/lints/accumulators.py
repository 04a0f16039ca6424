"""Accumulators with too few digits for what is added up in them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from triage.lints import arithmetic
from triage.lints.devices import Device
from triage.lints.hazard import Certainty, Hazard, label
from triage.lints.operands import gemms
from triage.lints.program import Program, Visit, shown
from triage.model import Access, BufferInfo, Loop

#: Binary digits of a 16-bit float. A sum of 2 ** digits equal terms no longer grows: the next term is below half its
#: last digit.
DIGITS = {"float16": 11, "bfloat16": 8}
#: Told from half of that many terms on, where each addition already loses half of its term in the worst case. Measured
#: for float16 on sm_90, uniform numbers: 1024 terms of a loop 0.8 %, 4096 1.9 %, 16384 75 % (a gemm: 0.3, 0.8, 1.4 %).
FEWER_DIGITS = 1
#: loops of which one thread runs all iterations, one after the other
ITERATED = frozenset({"serial", "pipelined", "unrolled"})


def narrow(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A long sum in a 16-bit float: the accumulator of a `T.gemm`, or `x = x + …` in a loop.

    `T.reduce_sum` is none: it keeps partial sums, and its error did not grow with the length.
    """
    for visit, operands in gemms(program):
        op, accumulator = visit.statement.op, operands.get("C")
        if op is None or accumulator is None or accumulator.dtype not in DIGITS:
            continue
        depth = op.params.get("K")
        clears = op.params.get("clear_accum") is True
        loops = [] if clears else _loops_of_one_sum(program, visit, accumulator, spread=set())
        yield from _told(visit, accumulator, "gemm", [depth if isinstance(depth, int) else "K"], loops)
    for visit in program.visits:
        target = _added_to(program, visit)
        if target is not None:
            buffer, access = target
            loops = _loops_of_one_sum(program, visit, buffer, spread=_names(access))
            if loops:
                yield from _told(visit, buffer, "loop", [], loops)


def _told(visit: Visit, buffer: BufferInfo, how: str, own: list[int | str], loops: list[Loop]) -> Iterator[Hazard]:
    extents = [*own, *(loop.extent for loop in loops)]
    known = [extent for extent in extents if isinstance(extent, int)]
    terms = math.prod(known) if len(known) == len(extents) else None
    if terms is not None and terms < 2 ** (DIGITS[buffer.dtype] - FEWER_DIGITS):
        return
    length = " × ".join(map(str, extents))
    fields = {"buffer": shown(buffer), "dtype": buffer.dtype, "how": how, "terms": terms, "length": length}
    where = label(buffer.at, f"{shown(buffer)} holds {buffer.dtype}")
    certainty: Certainty = "certain" if terms is not None else "likely"
    yield Hazard("narrow-accumulator", shown(buffer), visit.at, where, fields, certainty)


def _added_to(program: Program, visit: Visit) -> tuple[BufferInfo, Access] | None:
    """The element that a statement `x = x + …` adds to, if it is a 16-bit float the kernel itself allocates."""
    statement = visit.statement
    writes = [access for access in statement.accesses if access.mode == "write"]
    if statement.kind != "store" or len(writes) != 1:
        return None
    buffer = program.buffers.get(writes[0].buffer)
    target, value = (arithmetic.parse(side) for side in statement.text.partition(" = ")[::2])
    if buffer is None or buffer.param or buffer.dtype not in DIGITS or target is None or value is None:
        return None
    return (buffer, writes[0]) if any(arithmetic.same(target, term) for term in arithmetic.terms(value)) else None


def _names(access: Access) -> set[str]:
    parsed = [arithmetic.parse(index) for index in access.index]
    return set().union(*(arithmetic.names(expr) for expr in parsed if expr is not None))


def _loops_of_one_sum(program: Program, visit: Visit, buffer: BufferInfo, spread: set[str]) -> list[Loop]:
    """The loops around an addition whose iterations add to the same element, up to one that sets it anew.

    `spread` names what the index of the element is made of: a loop over such a name goes over elements.
    """
    loops: list[Loop] = []
    for parent in reversed(visit.parents):
        if parent.kind == "while":
            return []  # how often is anybody's guess
        if parent.loop is None:
            continue
        if _sets_anew(program, buffer, parent.id, visit):
            break
        if parent.loop.kind in ITERATED and parent.loop.var not in spread:
            loops.append(parent.loop)
    return loops


def _sets_anew(program: Program, buffer: BufferInfo, loop_id: str, addition: Visit) -> bool:
    """Whether the body of a loop gives the buffer a value that is not made from it."""
    for visit in program.visits:
        if visit is addition or not any(parent.id == loop_id for parent in visit.parents):
            continue
        modes = {access.mode for access in visit.statement.accesses if access.buffer == buffer.name}
        op = visit.statement.op
        if modes == {"write"} or ("readwrite" in modes and op is not None and op.params.get("clear_accum") is True):
            return True
    return False
