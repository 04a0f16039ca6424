"""Shared memory: how much one block asks for, buffer by buffer, and how much the device can give it.

Nothing checks this at compile time; the launch fails. What the lowered kernel asks for (`KernelRecord.shared_bytes`)
decides where it is known. Before lowering the plain sum proves nothing, because buffers whose lives do not overlap
share memory: only what must be alive at once counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label, size
from triage.lints.program import Program, Visit, shared, shown
from triage.model import BufferInfo, Label, Statement

#: With fewer stages nothing overlaps any more: a pipeline that fits only then has tiles too large, not too many stages.
SHALLOWEST = 2


@dataclass(frozen=True)
class Versioned:
    """A shared buffer that the software pipeline keeps once per stage."""

    buffer: BufferInfo
    loop: Visit
    stages: int


def over_limit(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """The block asks for more shared memory than it can get."""
    limit = device.shared_optin
    buffers = [b for b in program.allocated() if shared(b) and b.bytes is not None]
    if limit is None or not buffers:
        return
    versioned = {v.buffer.name: v for v in _versioned(program)}
    bytes_of = {b.name: (b.bytes or 0) * (versioned[b.name].stages if b.name in versioned else 1) for b in buffers}
    measured = program.kernel.shared_bytes
    asked = measured if measured is not None else _alive_at_once(program, versioned, bytes_of)
    if asked <= limit:
        return
    deepest = max(versioned.values(), key=lambda v: bytes_of[v.buffer.name], default=None)
    fits = _stages_that_fit(asked, limit, versioned)
    largest = max(buffers, key=lambda b: bytes_of[b.name])
    yield Hazard(
        "shared-over-limit",
        program.kernel.name,
        deepest.loop.at if deepest is not None and fits is not None and fits >= SHALLOWEST else largest.at,
        labels=_labels(buffers, versioned, bytes_of) + _loop_label(deepest, fits),
        fields={
            "bytes": asked,
            "limit": limit,
            "measured": measured is not None,
            "buffers": {shown(b): bytes_of[b.name] for b in buffers},
            "sum": sum(bytes_of.values()),
            "largest": shown(largest),
            "num_stages": deepest.stages if deepest is not None else None,
            "num_stages_that_fit": fits,
            "arch": device.arch,
        },
    )


def dynamic_extent(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A shared buffer whose extent is known only at the launch."""
    for buffer in program.allocated():
        symbols = [extent for extent in buffer.shape if not isinstance(extent, int)]
        if shared(buffer) and symbols:
            fields = {
                "buffer": shown(buffer),
                "shape": list(buffer.shape),
                "extent": symbols[0],
                "dtype": buffer.dtype,
                "limit": device.shared_optin,
                "extent_that_fits": _extent_that_fits(buffer, device.shared_optin) if len(symbols) == 1 else None,
                "arch": device.arch,
            }
            yield Hazard("shared-extent-dynamic", program.kernel.name, buffer.at, fields=fields, certainty="likely")


def _extent_that_fits(buffer: BufferInfo, limit: int | None) -> int | None:
    """The largest value of the one symbolic extent with which the buffer alone still fits; a bound from above."""
    per_step = buffer.bits * math.prod(extent for extent in buffer.shape if isinstance(extent, int))
    return limit * 8 // per_step if limit is not None and per_step > 0 else None


def _versioned(program: Program) -> Iterator[Versioned]:
    """Shared buffers that a pipelined loop fills by copies from global memory and reads in the same iteration."""
    if program.target_kind() in ("hip", "rocm") and not str(program.kernel.target.get("mcpu", "")).startswith("gfx950"):
        return  # 0.1.15 pipelines on no other AMD target
    for visit in program.visits:
        stages = num_stages(visit.statement)
        if stages < 2:
            continue
        inside = [v for v in program.visits if visit.statement in v.parents]
        filled = {
            a.buffer for v in inside if copies_from_global(program, v) for a in v.statement.accesses if _writes(a.mode)
        }
        read = {a.buffer for v in inside for a in v.statement.accesses if a.mode != "write"}
        for name in sorted(filled & read):
            buffer = program.buffers.get(name)
            if buffer is not None and shared(buffer) and buffer.bytes is not None and buffer.alias_of is None:
                yield Versioned(buffer, visit, stages)


def num_stages(statement: Statement) -> int:
    """The pipeline depth a loop asks for; 0 for a loop that is not pipelined."""
    stages = statement.loop.annotations.get("num_stages") if statement.loop is not None else None
    return stages if isinstance(stages, int) else 0


def _writes(mode: str) -> bool:
    return mode != "read"


def copies_from_global(program: Program, visit: Visit) -> bool:
    if visit.statement.kind not in ("op", "store"):
        return False
    scopes = {
        program.buffers[a.buffer].scope
        for a in visit.statement.accesses
        if a.mode != "write" and a.buffer in program.buffers
    }
    return "global" in scopes


def _alive_at_once(program: Program, versioned: dict[str, Versioned], bytes_of: dict[str, int]) -> int:
    """What cannot share memory: all stages of one pipeline, and what one statement touches."""
    together = [
        {name for name, v in versioned.items() if v.loop.order == loop.loop.order} for loop in versioned.values()
    ]
    for visit in program.visits:
        touched = (program.buffers.get(access.buffer) for access in visit.statement.accesses)
        together.append({program.owner(buffer).name for buffer in touched if buffer is not None})
    return max((sum(bytes_of.get(name, 0) for name in names) for names in together), default=0)


def _stages_that_fit(total: int, limit: int, versioned: dict[str, Versioned]) -> int | None:
    """The largest smaller `num_stages` with which the same kernel fits; None if there is no pipeline or none fits."""
    if not versioned:
        return None
    deepest = max(v.stages for v in versioned.values())
    per_stage = sum(v.buffer.bytes or 0 for v in versioned.values() if v.stages == deepest)
    surplus = math.ceil((total - limit) / per_stage) if per_stage else deepest
    return deepest - surplus if surplus < deepest else None


def _loop_label(deepest: Versioned | None, fits: int | None) -> tuple[Label, ...]:
    if deepest is None:
        return ()
    instead = f"{fits} would fit" if fits is not None else "no smaller number fits"
    return label(deepest.loop.at, f"num_stages={deepest.stages}: {instead}")


def _labels(buffers: list[BufferInfo], versioned: dict[str, Versioned], bytes_of: dict[str, int]) -> tuple[Label, ...]:
    """Where the memory goes, the largest buffer first."""
    labels: list[Label] = []
    for buffer in sorted(buffers, key=lambda b: -bytes_of[b.name]):
        stages = f" × {versioned[buffer.name].stages} stages" if buffer.name in versioned else ""
        text = f"{shown(buffer)}: {size(buffer.bytes or 0)}{stages} = {size(bytes_of[buffer.name])}"
        labels += label(buffer.at, text if stages else f"{shown(buffer)}: {size(bytes_of[buffer.name])}")
    return tuple(labels)
