"""bisect-switches: find the compiler switches without which a failing kernel comes through, and the nearest values that work."""

from __future__ import annotations

import time

from triage.experiment.bisect import Bisection, bisect
from triage.experiment.client import TemplateError
from triage.experiment.switches import worded
from triage.graph.spec import ToolSpec
from triage.knowledge.switches import SwitchTableError, load_switches
from triage.model import Fact, StepOutcome, StepStatus
from triage.tools.base import Bisected, Result, Work
from triage.tools.lower_kernels import program, reported_fault

SPEC = ToolSpec(
    "bisect-switches",
    "find the compiler switch that makes the fault go",
    adds=(
        "switch.sets", "switch.best", "switch.effect", "switch.passes", "switch.tries",
        "passing.threads", "passing.num_stages", "passing.architecture", "passing.dtype", "passing.extent",
    ),
    seconds=lambda facts: 15.0,
)  # fmt: skip

#: One kernel's experiments end after this many seconds, so that the next suspect gets its turn.
LONGEST = 60.0


def run(work: Work) -> Result:
    """Bisect the failure of one kernel's compile."""
    kernel = work.kernel
    if kernel.primfunc is None:
        return Result(status=StepStatus.FAILED, detail=f"kernel {kernel.name} was not captured as IR")
    if not kernel.failed:
        return Result(detail=f"kernel {kernel.name} compiles: only failures of its compile are bisected")
    work.progress(f"bisecting the switches of {kernel.name}")
    try:
        found = bisect(
            program(work, kernel),
            work.template(),
            load_switches(work.rules_root / "reference" / "switches.toml"),
            deadline=time.monotonic() + min(LONGEST, work.seconds),
            fault=reported_fault(work.errors, kernel),
            device="nvcc" in work.capabilities and kernel.target.get("kind") == "cuda",
            progress=work.progress,
        )
    except (SwitchTableError, OSError) as error:
        return Result(status=StepStatus.FAILED, detail=f"the table of switches cannot be read: {error}")
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the lowering process does not work: {error}")
    return Result(
        outcome=StepOutcome.FINDING if found.sets else StepOutcome.UNKNOWN,
        detail=f"{found.how} ({found.tries} experiments)",
        facts=tuple(_facts(found, work.about)),
        bisected=(Bisected(kernel.id, found.sets, found.neighbours, found.compiler),),
    )


def _facts(found: Bisection, about: str) -> list[Fact]:
    values: dict[str, object] = {"switch.sets": len(found.sets), "switch.tries": found.tries}
    if found.sets:
        best = found.sets[0]
        values["switch.best"] = ", ".join(worded(s.what, s.was, s.now) for s in best.settings)
        values["switch.effect"] = best.effect
        values |= {"switch.passes": " ".join(best.passes)} if best.passes else {}
    for one in found.neighbours:
        name = f"passing.{one.kind}"
        values[name] = f"{values[name]}, {one.was} → {one.now}" if name in values else f"{one.was} → {one.now}"
    return [Fact(name, value, about, source=SPEC.name) for name, value in values.items()]
