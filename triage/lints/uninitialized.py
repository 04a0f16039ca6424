"""On-chip buffers that are read although nothing wrote them.

The question asked is the coarsest one: is there *any* statement, other than the reading one, that may write the
buffer? A write under a condition, later in a loop, by another thread or through a pointer counts. What remains is
certain. Buffers that appear in anything the record cannot see into are left alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit, on_chip, shown
from triage.model import Access, BufferInfo

#: statement kinds whose accesses the record lists completely
TRANSPARENT = frozenset({"op", "store", "bind", "for", "if", "while", "alloc", "block", "attr"})


def reads(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A buffer that is read, or accumulated into, before anything gave it a value."""
    uses: dict[str, list[tuple[Visit, Access]]] = defaultdict(list)
    for visit, access, buffer in program.accesses():
        owner = program.owner(buffer)
        if on_chip(owner) and not owner.param:
            uses[owner.name].append((visit, access))
    for name, seen in uses.items():
        buffer = program.buffers[name]
        first = next(((v, a) for v, a in seen if a.mode != "write"), None)
        if first is None or _escapes(program, buffer):
            continue
        reader, access = first
        writers = [v for v, a in seen if a.mode != "read" and v is not reader]
        if not writers and not reader.conditional:
            yield _hazard(buffer, reader, access, writers=0)
        elif not buffer.scope.startswith("shared") and _straight_line(reader, writers):
            yield _hazard(buffer, reader, access, writers=len(writers))


def _straight_line(reader: Visit, writers: list[Visit]) -> bool:
    """Whether registers are read before their first write, with no loop that could bring a write round to the read."""
    if reader.conditional or not all(writer.order > reader.order for writer in writers):
        return False
    loops = {id(p) for p in reader.parents if p.kind in ("for", "while")}
    return not any(id(p) in loops for writer in writers for p in writer.parents)


def _escapes(program: Program, buffer: BufferInfo) -> bool:
    """Whether some statement mentions the buffer without listing an access to it, or is opaque and mentions it."""
    names = {b.name for b in program.buffers.values() if program.owner(b) is buffer}
    word = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})(?!\w)")
    for visit in program.visits:
        statement = visit.statement
        if statement.kind == "alloc" or not word.search(statement.text):
            continue
        listed = any(access.buffer in names for access in statement.accesses)
        if not listed or statement.kind not in TRANSPARENT:
            return True
    return False


def _hazard(buffer: BufferInfo, reader: Visit, access: Access, writers: int) -> Hazard:
    op = reader.statement.op
    fields = {
        "buffer": shown(buffer),
        "scope": buffer.scope,
        "op": op.name if op is not None else None,
        "mode": access.mode,
        "writers": writers,
    }
    return Hazard(
        "uninitialized-read",
        shown(buffer),
        reader.at,
        labels=label(buffer.at, f"{shown(buffer)} is allocated here"),
        fields=fields,
    )
