"""On-chip buffers that are read although nothing wrote them.

The question asked is the coarsest one: is there *any* statement, other than the reading one, that may write the
buffer? A write under a condition, later in a loop, by another thread or through a pointer counts. What remains is
certain. Buffers that appear in anything the record cannot see into are left alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from triage.lints.atomics import is_atomic
from triage.lints.devices import Device
from triage.lints.hazard import Certainty, Hazard, label
from triage.lints.program import Program, Visit, on_chip, ranked, shown
from triage.model import Access, BufferInfo

#: statement kinds whose accesses the record lists completely
TRANSPARENT = frozenset({"op", "store", "bind", "for", "if", "while", "alloc", "block", "attr"})


Use = tuple[Visit, Access]


def reads(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """Of each buffer, the first read of elements that nothing gave a value."""
    for buffer, uses in uses_of(program):
        if not escapes(program, buffer):
            found = _before_any_write(buffer, uses) or _beyond_all_writes(buffer, uses)
            yield from () if found is None else (found,)


def _before_any_write(buffer: BufferInfo, uses: list[Use]) -> Hazard | None:
    """A buffer that is read, or accumulated into, before anything wrote to it."""
    first = next((use for use in uses if _needs_value(*use) and _surely(*use)), None)
    if first is None:
        return None
    reader, access = first
    writers = [visit for visit, a in uses if a.mode != "read" and visit is not reader and not _needs_value(visit, a)]
    if writers and (buffer.scope.startswith("shared") or not _straight_line(reader, writers)):
        return None
    return _hazard("uninitialized-read", buffer, reader, access, writers=len(writers))


def _beyond_all_writes(buffer: BufferInfo, uses: list[Use]) -> Hazard | None:
    """A read of more than all writes together cover.

    Only likely a fault: what is read beyond may be masked later, or meant to be ignored.
    """
    written = [access for _, access in uses if access.mode != "read"]
    if any(access.buffer != buffer.name for _, access in uses):
        return None  # a view counts its elements in another shape
    for visit, access in uses:
        needed = _needs_value(visit, access) and _surely(visit, access)
        if needed and (beyond := _beyond(buffer, access, written)) is not None:
            return _hazard("partly-uninitialized-read", buffer, visit, access, writers=len(written), **beyond)
    return None


def uses_of(program: Program) -> Iterator[tuple[BufferInfo, list[Use]]]:
    """The on-chip buffers the kernel allocates, each with the accesses to its memory under any name."""
    uses: dict[str, list[Use]] = defaultdict(list)
    for visit, access, buffer in program.accesses():
        owner = program.owner(buffer)
        if on_chip(owner) and not owner.param:
            uses[owner.name].append((visit, access))
    for name, seen in uses.items():
        yield program.buffers[name], seen


def _needs_value(visit: Visit, access: Access) -> bool:
    """Whether the result depends on what was there before."""
    op = visit.statement.op
    if is_atomic(visit.statement):
        return True
    if op is not None and "gemm" in op.name and access.mode == "readwrite":
        return op.params.get("clear_accum") is False  # an expression may clear in the first turn
    if op is not None and op.name == "reduce" and access.mode == "write":
        return op.params.get("clear") is False
    return access.mode != "write"


def _surely(visit: Visit, access: Access) -> bool:
    return not visit.conditional and not access.guarded


def _beyond(buffer: BufferInfo, access: Access, written: list[Access]) -> dict[str, int] | None:
    """The first dimension in which `access` attains elements, within the shape, that no write reaches."""
    if not access.exact or not all(ranked(a, buffer) for a in (access, *written)):
        return None
    for dimension, size in enumerate(buffer.shape):
        read = _span(access, dimension)
        spans = [_span(write, dimension) for write in written]
        if not isinstance(size, int) or read is None or None in spans:
            continue
        first = min(span[0] for span in spans if span is not None)
        last = max(span[1] for span in spans if span is not None)
        low, high = read[0], min(read[1], size - 1)  # beyond the shape is the business of another check
        if low < first or high > last:
            reach = {"first": low, "last": high, "written_first": first, "written_last": last}
            return {"dimension": dimension, **reach}
    return None


def _span(access: Access, dimension: int) -> tuple[int, int] | None:
    """First and last element touched in a dimension; None if not bounded or counted from the end."""
    low, high, extent = access.low[dimension], access.high[dimension], access.extent[dimension]
    return None if low is None or high is None or extent is None or low < 0 else (low, high + extent - 1)


def _straight_line(reader: Visit, writers: list[Visit]) -> bool:
    """Whether registers are read before their first write, with no loop that could bring a write round to the read."""
    if not all(writer.order > reader.order for writer in writers):
        return False
    loops = {id(p) for p in reader.parents if p.kind in ("for", "while")}
    return not any(id(p) in loops for writer in writers for p in writer.parents)


def escapes(program: Program, buffer: BufferInfo) -> bool:
    """Whether something the record cannot see into may write the buffer.

    That is a statement that mentions it without listing an access, or takes a pointer to it, or calls a function
    with it. A pointer prints under the author's name, even where the record had to rename the buffer.
    """
    views = [b for b in program.buffers.values() if program.owner(b) is buffer]
    names = {b.name for b in views}
    mentioned, pointed_to = _words(names), _words(names | {shown(b) for b in views})
    for visit in program.visits:
        statement = visit.statement
        if statement.kind not in TRANSPARENT and not is_atomic(statement):
            if pointed_to.search(statement.text):
                return True
            continue
        modes = {access.mode for access in statement.accesses if access.buffer in names}
        unlisted = not modes and statement.kind != "alloc" and mentioned.search(statement.text)
        if unlisted or (statement.kind != "op" and "readwrite" in modes and not is_atomic(statement)):
            return True
    return False


def _words(names: set[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")


def _hazard(kind: str, buffer: BufferInfo, reader: Visit, access: Access, writers: int, **more: int) -> Hazard:
    op = reader.statement.op
    fields = {
        "buffer": shown(buffer),
        "scope": buffer.scope,
        "op": op.name if op is not None else None,
        "mode": access.mode,
        "writers": writers,
        **more,
    }
    where = label(buffer.at, f"{shown(buffer)} is allocated here")
    certainty: Certainty = "certain" if kind == "uninitialized-read" else "likely"
    return Hazard(kind, shown(buffer), reader.at, labels=where, fields=fields, certainty=certainty)
