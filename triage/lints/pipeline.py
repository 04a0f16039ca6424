"""The depth of a software pipeline against the loop it runs in."""

from __future__ import annotations

from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard
from triage.lints.program import Program
from triage.lints.shared_memory import num_stages


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
