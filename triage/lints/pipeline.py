"""The depth of a software pipeline against the loop it runs in."""

from __future__ import annotations

from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard
from triage.lints.program import Program
from triage.lints.shared_memory import num_stages

#: what the author writes, and the annotation it becomes
MANUAL = {"order": "tl_pipeline_order", "stage": "tl_pipeline_stage"}


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
