"""All tools by name, in the order of the chains; `graph.toml` refers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from triage.graph.spec import ToolSpec
from triage.tools import (
    bisect_switches,
    compare_segments,
    compare_stages,
    cpu_twin,
    doctor,
    draw_layouts,
    drop_statements,
    lower_kernels,
    lower_trace,
    minimize,
    mismatch_pattern,
    observe,
    read_error,
    reference_fp64,
    repair_statements,
    repeat,
    static_checks,
    tolerance_model,
    vary_schedule,
    verify_fix,
)
from triage.tools.base import Result, Work
from triage.tools.planned import PLANNED

Run = Callable[[Work], Result]

BUILT: tuple[tuple[ToolSpec, Run], ...] = (
    (observe.SPEC, observe.run),
    (read_error.SPEC, read_error.run),
    (static_checks.SPEC, static_checks.run),
    (doctor.SPEC, doctor.run),
    (lower_kernels.SPEC, lower_kernels.run),
    (lower_trace.SPEC, lower_trace.run),
    (drop_statements.SPEC, drop_statements.run),
    (bisect_switches.SPEC, bisect_switches.run),
    (minimize.SPEC, minimize.run),
    (repeat.SPEC, repeat.run),
    (tolerance_model.SPEC, tolerance_model.run),
    (reference_fp64.SPEC, reference_fp64.run),
    (verify_fix.SPEC, verify_fix.run),
    (cpu_twin.SPEC, cpu_twin.run),
    (vary_schedule.SPEC, vary_schedule.run),
    (mismatch_pattern.SPEC, mismatch_pattern.run),
    (draw_layouts.SPEC, draw_layouts.run),
    (compare_stages.SPEC, compare_stages.run),
    (compare_segments.SPEC, compare_segments.run),
    (repair_statements.SPEC, repair_statements.run),
)

SPECS: Mapping[str, ToolSpec] = {spec.name: spec for spec in (*(spec for spec, _ in BUILT), *PLANNED)}
RUNNERS: Mapping[str, Run] = {spec.name: run for spec, run in BUILT}
