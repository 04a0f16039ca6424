"""Software pipelines: their depth against the loop they run in, and loads that go ahead of reads."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator

from triage.lints import arithmetic
from triage.lints.devices import Device
from triage.lints.hazard import Certainty, Hazard, label
from triage.lints.program import Program, Visit, ranked, shared, shown
from triage.lints.shared_memory import copies_from_global, num_stages
from triage.model import Access, BufferInfo, Loop, Statement

#: what the author writes, and the annotation it becomes
MANUAL = {"order": "tl_pipeline_order", "stage": "tl_pipeline_stage"}
MANUAL_KEYS = frozenset(MANUAL.values())

#: loops whose iterations do not come one after the other
SPREAD = frozenset({"parallel", "vectorized"})
#: the first architecture for which TileLang specializes warps
FIRST_SPECIALIZED = 90


def stages(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """More stages than iterations: the surplus buffers are allocated and never used.

    A depth below 1 cannot be seen here: 0.1.15 drops it when the loop is built, and the loop runs unpipelined.
    """
    for visit in program.visits:
        loop = visit.statement.loop
        depth = num_stages(visit.statement)
        if loop is None or not isinstance(loop.extent, int) or not 0 <= loop.extent < depth:
            continue
        fields = {"num_stages": depth, "extent": loop.extent, "loop": loop.var}
        yield Hazard("pipeline-deeper-than-loop", loop.var, visit.at, fields=fields)


def schedule(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """An `order` without a `stage`, or the other way round: 0.1.15 schedules by hand only if it has both."""
    for visit in program.visits:
        loop = visit.statement.loop
        given = [name for name, key in MANUAL.items() if loop is not None and key in loop.annotations]
        if loop is not None and len(given) == 1:
            missing = next(name for name in MANUAL if name not in given)
            fields = {
                "loop": loop.var,
                "given": given[0],
                "missing": missing,
                "num_stages": num_stages(visit.statement),
            }
            yield Hazard("pipeline-schedule-ignored", loop.var, visit.at, fields=fields)


def overwritten(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A shared tile that an iteration reads first and then loads anew, for the next iteration to read.

    0.1.15 takes the load for the producer of the iteration it stands in: it goes ahead of the read, and nothing waits
    for it. Measured on sm_90: with two and more stages every such loop is wrong, with one stage those whose load is
    a `T.copy`, unless warp specialization is off; without pipelining all are right.
    """
    for statement, loop, inside in _pipelined(program):
        if any(v.statement.kind == "call" for v in inside):
            continue  # barriers or copies by hand: their author pipelines
        depth = num_stages(statement)
        for read, load, buffer in _read_then_loaded(program, statement, inside):
            ahead = load.statement.kind == "op" and _warp_specialized(program, device)
            if depth > 1 or ahead:
                fields = {"buffer": shown(buffer), "loop": loop.var, "num_stages": depth}
                why = label(read.at, f"reads what the iteration before loaded into {shown(buffer)}")
                certainty: Certainty = "certain" if depth > 1 else "likely"
                yield Hazard("pipelined-overwrite", shown(buffer), load.at, why, fields, certainty)


def _pipelined(program: Program) -> Iterator[tuple[Statement, Loop, list[Visit]]]:
    """The loops that 0.1.15 pipelines for CUDA by itself and that may go round twice, each with what it holds."""
    if program.target_kind() != "cuda":
        return
    for visit in program.visits:
        statement, loop = visit.statement, visit.statement.loop
        if loop is None or num_stages(statement) < 1 or loop.annotations.keys() & MANUAL_KEYS or loop.extent in (0, 1):
            continue
        yield statement, loop, [v for v in program.visits if any(parent is statement for parent in v.parents)]


def _read_then_loaded(
    program: Program, loop: Statement, inside: list[Visit]
) -> Iterator[tuple[Visit, Visit, BufferInfo]]:
    """Shared buffers whose first use in an iteration is a read, and whose only write is a later load of the same part."""
    uses: dict[str, list[tuple[Visit, Access]]] = defaultdict(list)
    for visit in inside:
        for access in visit.statement.accesses:
            uses[access.buffer].append((visit, access))
    for name, seen in uses.items():
        buffer = program.buffers.get(name)
        if buffer is None or not shared(buffer) or buffer.alias_of is not None or _viewed(program, buffer):
            continue
        (read, first), *_ = seen
        writes = [(visit, access) for visit, access in seen if access.mode != "read"]
        if first.mode != "read" or len(writes) != 1:
            continue
        load, written = writes[0]
        if not (ranked(first, buffer) and ranked(written, buffer)):
            continue
        plain = not (read.conditional or load.conditional or first.guarded or written.guarded)
        spans = _span(read, first), _span(load, written)
        if (
            plain
            and None not in spans
            and spans[0] == spans[1]
            and copies_from_global(program, load)
            and _part(loop, read) is not _part(loop, load)
        ):
            yield read, load, buffer


def _span(visit: Visit, access: Access) -> list[tuple[int, int]] | None:
    """First and last element of every dimension, if it is the same part in every iteration of serial loops."""
    spread = {p.loop.var for p in visit.parents if p.loop is not None and p.loop.kind in SPREAD}
    span: list[tuple[int, int]] = []
    for index, low, high, extent in zip(access.index, access.low, access.high, access.extent, strict=True):
        expr = arithmetic.parse(index)
        if expr is None or not arithmetic.names(expr) <= spread or low is None or high is None or extent is None:
            return None
        span.append((low, high + extent - 1))
    return span if access.exact else None


def _part(loop: Statement, visit: Visit) -> Statement:
    """The statement of the loop's body that a statement inside belongs to."""
    chain = (*visit.parents, visit.statement)
    return next(inner for outer, inner in itertools.pairwise(chain) if outer is loop)


def _viewed(program: Program, buffer: BufferInfo) -> bool:
    return any(other.alias_of == buffer.name for other in program.buffers.values())


def _warp_specialized(program: Program, device: Device) -> bool:
    """Whether warps of their own may load the tiles of a pipelined loop: from sm_90 on, unless switched off.

    Measured: switching off bulk copies alone (`tl.disable_tma_lower`) makes none of the loops here right.
    """
    number = device.arch.removeprefix("sm_").rstrip("af")
    off = program.kernel.pass_configs.get("tl.disable_warp_specialized")
    return number.isdigit() and int(number) >= FIRST_SPECIALIZED and not off


def stored_by_producers(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A fragment that an iteration copies to global memory before it updates it, in a loop with specialized warps.

    With warp specialization 0.1.15 gives what stands before the first use of a loaded tile to the producer warps, if
    all of it looks as if they could do it. A `T.copy` of a fragment does; and the producers get a fragment of their own,
    named `…_producer_ws`, which nobody updates. Measured on sm_90.
    """
    if not _warp_specialized(program, device):
        return
    for statement, loop, inside in _pipelined(program):
        for copy, buffer in _copies_before_use(program, statement, inside):
            own = re.search(rf"\b{re.escape(shown(buffer))}\w*_producer_ws\b", source) if source is not None else None
            updates = [v for v in inside if v.order > copy.order and _writes(v, buffer.name)]
            if updates and (source is None or own is not None):
                fields = {"buffer": shown(buffer), "loop": loop.var, "num_stages": num_stages(statement)}
                why = label(updates[0].at, f"{shown(buffer)} is updated here, in other warps")
                certainty: Certainty = "certain" if own is not None else "likely"
                yield Hazard("pipelined-store-by-producers", shown(buffer), copy.at, why, fields, certainty)


def _copies_before_use(program: Program, loop: Statement, inside: list[Visit]) -> Iterator[tuple[Visit, BufferInfo]]:
    """The copies of fragments to global memory of which all consists that stands before the first use of a loaded tile."""
    loaded: set[str] = set()
    copies: list[tuple[Visit, BufferInfo]] = []
    for child in loop.body:
        visits = [v for v in inside if v.statement is child or any(parent is child for parent in v.parents)]
        here = next(v for v in visits if v.statement is child)
        uses = {access.buffer for v in visits for access in v.statement.accesses if access.mode != "write"}
        stored = _fragment_to_global(program, here)
        if uses & loaded:
            yield from copies
            return
        if stored is not None:
            copies.append((here, stored))
        elif child.kind == "op" and copies_from_global(program, here):
            loaded |= {a.buffer for a in child.accesses if a.mode != "read" and a.buffer in program.buffers}
        else:
            return


def _fragment_to_global(program: Program, visit: Visit) -> BufferInfo | None:
    op = visit.statement.op
    buffers = {access.mode: program.buffers.get(access.buffer) for access in visit.statement.accesses}
    read, written = buffers.get("read"), buffers.get("write")
    if (
        op is None
        or op.name != "copy"
        or len(visit.statement.accesses) != len(buffers)
        or read is None
        or written is None
    ):
        return None
    return read if (read.scope, written.scope) == ("local.fragment", "global") else None


def _writes(visit: Visit, name: str) -> bool:
    return any(access.buffer == name and access.mode != "read" for access in visit.statement.accesses)
