"""Atomic operators that do something else than they read like."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from triage.lints import arithmetic
from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import WORD, Program, Visit, shared, shown
from triage.model import BufferInfo, Statement, TileOp

TILE_ATOMICS = frozenset({"atomicadd", "atomicmax", "atomicmin"})
ATOMIC = re.compile(r"(?:\w+ = )?(?P<op>atomic_?[a-z]+)\w*\(")
NO_UPDATE = re.compile(r"atomic_?(?:load|store)")
#: updates that done twice are not what they are done once
ADDITION = re.compile(r"atomic_?(?:add|sub|xor)")
EXTREMUM = re.compile(r"atomic_?(?:max|min)")
#: types without an atomic maximum in hardware
EMULATED = frozenset({"float16", "bfloat16"})


def once_per_block(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.atomic_add(buffer, value of this thread)` on a buffer of one element: only thread 0 adds.

    Given a whole buffer the operator works on the tile, and a tile of one element is one thread's work. With an
    element as destination, `buffer[0]`, every thread adds its own value.
    """
    for visit, op, destination in _of_one_element(program):
        if program.values_of_threads.intersection(WORD.findall(op.args[0])):
            fields = {"op": op.name, "buffer": shown(destination), "value": op.args[0]}
            yield _hazard("atomic-once-per-block", visit, destination, fields)


def under_a_condition(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.atomic_add(buffer, value)` on a buffer of one element under a condition on what each thread read.

    Only thread 0 adds, so only its condition counts. A condition on thread indices alone, or `T.ws`, is left alone: the
    first of those threads adds, which may be meant.
    """
    for visit, op, destination in _of_one_element(program):
        branch = next((p for p in reversed(visit.parents) if p.kind == "if" and p.divergent), None)
        if branch is None or program.values_of_threads.intersection(WORD.findall(op.args[0])):
            continue
        if _reads_per_thread(program, branch):
            fields = {"op": op.name, "buffer": shown(destination), "condition": branch.condition or ""}
            where = label(branch.at, f"each thread decides by {branch.condition}")
            yield Hazard("conditional-atomic-once-per-block", shown(destination), visit.at, labels=where, fields=fields)


def _of_one_element(program: Program) -> Iterator[tuple[Visit, TileOp, BufferInfo]]:
    """The atomic operators on tiles of one element, each with the buffer it updates."""
    for visit in program.visits:
        op, accesses = visit.statement.op, visit.statement.accesses
        if op is None or op.name not in TILE_ATOMICS or not accesses or not op.args:
            continue
        destination = program.buffers.get(accesses[-1].buffer)
        if destination is not None and all(extent == 1 for access in accesses for extent in access.extent):
            yield visit, op, destination


def _reads_per_thread(program: Program, branch: Statement) -> bool:
    """Whether a condition depends on memory at an index of the thread, directly or by a name bound before."""
    condition = arithmetic.parse(branch.condition or "")
    if condition is None:
        return False
    expanded = arithmetic.replaced(condition, program.definitions)
    return any(
        isinstance(node, ast.Subscript) and program.values_of_threads & arithmetic.names(node)
        for node in ast.walk(expanded)
    )


def by_every_thread(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.atomic_add(O[0], t[0])` outside of T.Parallel, where `t` belongs to the block: every thread adds the same.

    Only values read from shared memory or from a fragment of one element are told: a constant may well count the
    threads, and of a larger fragment 0.1.15 lets the thread that has the element add it.
    """
    threads = program.threads
    if threads is None or threads == 1:
        return
    for visit, operation, target in _atomics(program):
        statement = visit.statement
        apart = any(p.loop is not None and p.loop.kind in ("parallel", "thread") for p in visit.parents)
        if not ADDITION.match(operation) or statement.kind == "op" or apart or visit.conditional:
            continue
        if target.scope != "global" or program.values_of_threads.intersection(WORD.findall(statement.text)):
            continue
        read = [program.buffers.get(access.buffer) for access in statement.accesses if access.mode == "read"]
        of_block = next((b for b in read if b is not None and _is_of_block(b)), None)
        if of_block is not None and all(b is not None and (b.scope == "global" or _is_of_block(b)) for b in read):
            fields = {"op": operation, "buffer": shown(target), "value": shown(of_block), "threads": threads}
            yield _hazard("atomic-by-every-thread", visit, target, fields)


def on_registers(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """An atomic update of a fragment or a local array: no other thread sees it, and the hardware has no such operation."""
    for visit, operation, target in _atomics(program):
        if target.scope in ("local", "local.fragment", "local.var"):
            fields = {"op": operation, "buffer": shown(target), "scope": target.scope}
            yield _hazard("atomic-on-registers", visit, target, fields)


def emulated(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """An atomic maximum or minimum of 16-bit floats: a loop of compare-and-swap instead of one instruction."""
    if program.target_kind() != "cuda":
        return
    for visit, operation, target in _atomics(program):
        if EXTREMUM.match(operation) and target.dtype in EMULATED:
            fields = {"op": operation, "buffer": shown(target), "dtype": target.dtype}
            yield _hazard("atomic-emulated", visit, target, fields)


def is_atomic(statement: Statement) -> bool:
    """Whether a statement is an atomic update: what it leaves depends on what was there."""
    found = ATOMIC.match(statement.text) if statement.kind in ("call", "op", "bind") else None
    return found is not None and not NO_UPDATE.match(found["op"])


def _atomics(program: Program) -> Iterator[tuple[Visit, str, BufferInfo]]:
    """Every atomic operator with its short name and the buffer it updates."""
    for visit in program.visits:
        statement = visit.statement
        found = ATOMIC.match(statement.text) if statement.kind in ("call", "op", "bind") else None
        updated = [program.buffers.get(a.buffer) for a in statement.accesses if a.mode != "read"]
        if found is not None and len(updated) == 1 and updated[0] is not None:
            yield visit, found["op"].removesuffix("_elem").removesuffix("_"), updated[0]


def _is_of_block(buffer: BufferInfo) -> bool:
    """Whether all threads of a block see the same under one index."""
    return shared(buffer) or (buffer.scope == "local.fragment" and all(extent == 1 for extent in buffer.shape))


def _hazard(kind: str, visit: Visit, buffer: BufferInfo, fields: Mapping[str, object]) -> Hazard:
    where = label(buffer.at, f"{shown(buffer)} is declared here")
    return Hazard(kind, shown(buffer), visit.at, labels=where, fields=dict(fields))
