"""The launch: threads of a block, extents of the grid, blocks of a cluster.

None of these is checked when TileLang compiles a kernel; the driver refuses the launch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from triage.lints.devices import Device
from triage.lints.hazard import Hazard
from triage.lints.program import Program, constant

AXES = ("x", "y", "z")
#: what the generated source promises the compiler: threads of a block, producer warps included
LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\(\s*(\d+)")


def threads(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """More threads in a block than the device allows, in one dimension or in all of them together."""
    for launch in program.launches:
        dims = constant(launch.threads)
        over = tuple(_over(dims, device)) or tuple(_with_producers(program, device, source))
        for fields in over:
            fields |= {"dimensions": list(dims), "arch": device.arch}
            yield Hazard("threads-over-limit", program.kernel.name, launch.at, fields=fields)


def _over(dims: tuple[int, ...], device: Device) -> Iterator[dict[str, Any]]:
    """The limits that a block of these dimensions exceeds: that of all threads, or else those of single dimensions."""
    asked, limit = math.prod(dims), device.threads_per_block
    if limit is not None and asked > limit:
        yield {"threads": asked, "limit": limit, "axis": None, "added": 0}
        return
    for axis, extent, most in zip(AXES, dims, device.block, strict=False):
        if most is not None and extent > most:
            yield {"threads": extent, "limit": most, "axis": axis, "added": 0}


def _with_producers(program: Program, device: Device, source: str | None) -> Iterator[dict[str, Any]]:
    """A block that is too large with the producer warps which warp specialization appends to it."""
    limit, asked = device.threads_per_block, program.threads
    bounds = [int(n) for n in LAUNCH_BOUNDS.findall(source or "")]
    if limit is not None and asked is not None and len(bounds) == len(program.launches) == 1 and bounds[0] > limit:
        yield {"threads": bounds[0], "limit": limit, "axis": None, "added": bounds[0] - asked}


def grid(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A grid dimension that is empty or longer than the device allows."""
    for launch in program.launches:
        for axis, extent, most in zip(AXES, launch.grid, device.grid, strict=False):
            if not isinstance(extent, int):
                continue
            fields = {"axis": axis, "extent": extent, "grid": list(launch.grid), "arch": device.arch}
            if extent <= 0:
                yield Hazard("grid-empty", program.kernel.name, launch.at, fields=fields)
            elif most is not None and extent > most:
                yield Hazard("grid-over-limit", program.kernel.name, launch.at, fields={**fields, "limit": most})


def cluster(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """More blocks in a cluster than any launch attribute allows."""
    for launch in program.launches:
        blocks = math.prod(constant(launch.cluster))
        if device.cluster is not None and blocks > device.cluster:
            fields = {"blocks": blocks, "limit": device.cluster, "cluster": list(launch.cluster), "arch": device.arch}
            yield Hazard("cluster-over-limit", program.kernel.name, launch.at, fields=fields)
