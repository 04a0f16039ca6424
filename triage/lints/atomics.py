"""Atomic operators that do something else than they read like."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit, shown
from triage.model import BufferInfo

TILE_ATOMICS = frozenset({"atomicadd", "atomicmax", "atomicmin"})
EXTREMUM = re.compile(r"\batomic_?(?:max|min)")
#: types without an atomic maximum in hardware
EMULATED = frozenset({"float16", "bfloat16"})


def once_per_block(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.atomic_add(buffer, value of this thread)` on a buffer of one element: only thread 0 adds.

    Given a whole buffer the operator works on the tile, and a tile of one element is one thread's work. With an
    element as destination, `buffer[0]`, every thread adds its own value.
    """
    own = _values_of_threads(program)
    for visit in program.visits:
        op = visit.statement.op
        if op is None or op.name not in TILE_ATOMICS or not visit.statement.accesses or not op.args:
            continue
        one = all(extent == 1 for access in visit.statement.accesses for extent in access.extent)
        if one and own.intersection(re.findall(r"[A-Za-z_]\w*", op.args[0])):
            destination = program.buffers.get(visit.statement.accesses[-1].buffer)
            if destination is not None:
                fields = {"op": op.name, "buffer": shown(destination), "value": op.args[0]}
                yield _hazard("atomic-once-per-block", visit, destination, fields)


def emulated(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """An atomic maximum or minimum of 16-bit floats: a loop of compare-and-swap instead of one instruction."""
    if program.target_kind() != "cuda":
        return
    for visit in program.visits:
        found = EXTREMUM.match(visit.statement.text) if visit.statement.kind in ("call", "op", "bind") else None
        written = [program.buffers.get(a.buffer) for a in visit.statement.accesses if a.mode != "read"]
        if found is None or not written or written[0] is None or written[0].dtype not in EMULATED:
            continue
        fields = {"op": found[0], "buffer": shown(written[0]), "dtype": written[0].dtype}
        yield _hazard("atomic-emulated", visit, written[0], fields)


def _values_of_threads(program: Program) -> set[str]:
    """Names of thread indices and of values computed from them."""
    own: set[str] = set()
    for visit in program.visits:
        if visit.statement.kind != "bind":
            continue
        name, _, value = visit.statement.text.partition(" = ")
        if "launch_thread_idx(" in value or own.intersection(re.findall(r"[A-Za-z_]\w*", value)):
            own.add(name)
    return own


def _hazard(kind: str, visit: Visit, buffer: BufferInfo, fields: dict[str, str]) -> Hazard:
    where = label(buffer.at, f"{shown(buffer)} is declared here")
    return Hazard(kind, shown(buffer), visit.at, labels=where, fields=dict(fields))
