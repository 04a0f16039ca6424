"""bisect-switches: find the compiler switches without which a failing kernel comes through, and the nearest values that work.

Of a kernel that compiles and computes other values than its twin, those with which its values are right.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from triage.experiment.bisect import Bisection, bisect
from triage.experiment.client import TemplateError
from triage.experiment.kernels import Kernel
from triage.experiment.switch_values import Helpful, ValueSearch, written_at
from triage.experiment.switches import settings, worded
from triage.graph.spec import ToolSpec
from triage.knowledge.switches import Switch, SwitchTableError, load_switches
from triage.lints.hazard import Hazard, label
from triage.model import Fact, FoundBy, Place, StepOutcome, StepStatus
from triage.tools import reruns
from triage.tools.base import Bisected, Result, Work
from triage.tools.compared import observed_run, order_decides
from triage.tools.lower_kernels import program, reported_fault, units_of

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
#: Runs of the whole script on its device are slower than lowering one kernel.
LONGEST_OF_VALUES = 90.0


def run(work: Work) -> Result:
    """Bisect the failure of one kernel's compile."""
    kernel = work.kernel
    if kernel.primfunc is None:
        return Result(status=StepStatus.FAILED, detail=f"kernel {kernel.name} was not captured as IR")
    work.progress(f"bisecting the switches of {kernel.name}")
    try:
        switches = load_switches(work.rules_root / "reference" / "switches.toml")
        if not kernel.failed:
            return _of_values(work, kernel, switches)
        found = bisect(
            program(work, kernel),
            work.template(),
            switches,
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


def _of_values(work: Work, kernel: Kernel, switches: Sequence[Switch]) -> Result:
    """What makes the values of a kernel right that its twin computes right."""
    if work.facts.get("twin.verdict") != "matched" or work.facts.get("comparison.verdict") != "mismatched":
        return Result(
            detail=f"kernel {kernel.name} compiles, and nothing shows that the compiler makes its values wrong"
        )
    device = observed_run(work)
    if device is not None and order_decides(device, {kernel.id}):
        return Result(
            detail=f"what {kernel.name} computes depends on an order that it does not say, and switches change it"
        )
    script = reruns.candidate(work)
    if script is None:
        return Result(detail="a script is run again as it was read, and this run is of a module or the script is gone")
    options = settings(switches, units_of(work, kernel), program(work, kernel))
    deadline = time.monotonic() + min(LONGEST_OF_VALUES, work.seconds)
    with reruns.runner(work) as runner:
        search = ValueSearch(runner, script, kernel.id, deadline, reruns.limit(work), work.progress)
        gross = bool(work.facts.get("twin.gross") or work.facts.get("segments.differing"))
        outcome = search.run(options, rounding=not gross)
    facts = [Fact("switch.tries", outcome.tries, work.about, source=SPEC.name)]
    if outcome.found is None:
        return Result(detail=outcome.how, facts=tuple(facts))
    facts.append(Fact("switch.best", outcome.found.text, work.about, source=SPEC.name))
    return Result(
        outcome=StepOutcome.FINDING,
        detail=outcome.how,
        facts=tuple(facts),
        hazards=(_hazard(work, kernel, outcome.found),),
    )


def _hazard(work: Work, kernel: Kernel, found: Helpful) -> Hazard:
    place = next((Place(s.file, s.line) for s in found.settings if s.file and s.line), None)
    if place is None and found.own and work.script_source is not None:
        line = written_at(work.script_source, found.settings[0].without)
        place = Place(work.script_path, line) if line else None
    seen = work.facts.get("segments.line")  # where the values first differ, if that is known
    at = Place(work.script_path, int(seen)) if seen else None
    labels = label(at, "from here on the device's values differ from the twin's") if place else ()
    place = place or at or kernel.defined_at
    fields = {
        "kernel": kernel.name,
        "settings": found.text,
        "passes": ", ".join(found.passes) or "unknown",
        "found_by": FoundBy.EXPERIMENT.value,
    }
    return Hazard("own-setting-spoils-values" if found.own else "switch-rights-values", "run", place, labels, fields)


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
