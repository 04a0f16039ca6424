"""Regions of warp groups (`T.ws`) that no thread of the block belongs to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from triage.lints import arithmetic
from triage.lints.devices import Device
from triage.lints.hazard import Hazard
from triage.lints.program import Program, constant
from triage.model import Statement

#: the attribute that `T.ws` leaves at the start of its region
REGION = "attr warp_specialize"
#: no device takes larger blocks
LARGEST_BLOCK = 1024


def without_threads(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A `T.ws` region whose condition holds for no thread: what it holds is never carried out.

    A group is 128 threads. 0.1.15 takes -1 for the threads from -128 to -1, although it is documented as all threads,
    and a number for threads that the block does not have without a word.
    """
    for visit in program.visits:
        branch = visit.statement
        if branch.kind != "if" or not _is_region(branch) or not _does_something(branch):
            continue
        if _has_a_thread(branch.condition or "", program) is False:
            fields = {"condition": branch.condition, "threads": program.threads}
            yield Hazard("warp-group-without-threads", program.kernel.name, visit.at, fields=fields)


def _is_region(branch: Statement) -> bool:
    return bool(branch.body) and branch.body[0].kind == "attr" and branch.body[0].text.startswith(REGION)


def _does_something(branch: Statement) -> bool:
    return any(s.kind in ("store", "op", "call") or _does_something(s) for s in branch.body)


def _has_a_thread(condition: str, program: Program) -> bool | None:
    """Whether a thread of the block fulfils a condition on thread indices alone; None if that is not plain."""
    expr, blocks, axes = arithmetic.parse(condition), program.blocks, program.thread_indices
    sizes = constant(blocks[0]) if len(program.launches) == len(blocks) == 1 else ()
    if expr is None or not sizes or math.prod(sizes) > LARGEST_BLOCK or not arithmetic.names(expr) <= axes.keys():
        return None
    sizes += (1,) * (max(axes.values()) + 1 - len(sizes))
    try:
        return any(
            arithmetic.value(expr, {name: thread[axis] for name, axis in axes.items()})
            for thread in itertools.product(*map(range, sizes))
        )
    except arithmetic.Unknown:
        return None
