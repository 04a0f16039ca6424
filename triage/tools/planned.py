"""The tools of the other chains: in the graph from the start, built one after another.

They are declared with what they will add, so that the graph can be checked as a whole and shows where the way leads.
"""

from __future__ import annotations

from triage.graph.spec import ToolSpec


def _planned(name: str, title: str, *adds: str) -> ToolSpec:
    return ToolSpec(name, title, adds, built=False)


PLANNED = (
    _planned("read-artifacts", "read logs and profiles without running anything", "error.text", "error.stage"),
    _planned("vary-host", "vary seed, cache and process order"),
    _planned("serialize", "take all concurrency away", "serialized.failure_rate"),
    _planned("add-back", "add concurrency back, one dimension at a time"),
    _planned("sanitizers", "compute-sanitizer: memcheck, racecheck, initcheck, synccheck"),
    _planned("twin-schedules", "permute block and loop order on the CPU twin"),
    _planned("insert-probes", "print and dump tensors in the kernel"),
    _planned("roofline", "compute the roofline expectation"),
    _planned("measure-launch", "time the launch on the device", "launch.slow"),
    _planned("ncu", "profile with Nsight Compute"),
    _planned("limiter", "name what limits the kernel"),
    _planned("change-one", "change one parameter and measure again"),
)
