"""drop-statements: find the user's line of a fault that no frame names, by lowering the kernel without parts of it."""

from __future__ import annotations

import time
from dataclasses import replace

from triage.experiment.client import TemplateError
from triage.experiment.kernels import Kernel
from triage.experiment.localize import Localization, localize
from triage.experiment.neighbours import nearest_of
from triage.graph.spec import ToolSpec
from triage.model import Confidence, Fact, FoundBy, Neighbour, StepOutcome, StepStatus, to_json
from triage.ownership import owner_by_path
from triage.readers import decisive, from_event
from triage.tools.base import Bisected, Culprit, Result, Work
from triage.tools.lower_kernels import failing_operation, program, reported_fault

SPEC = ToolSpec(
    "drop-statements",
    "find the statement without which the kernel lowers",
    adds=("culprit.line", "culprit.tries", "passing.threads", "passing.num_stages"),
    seconds=lambda facts: 10.0,
)

#: One kernel's experiments end after this many seconds, so that the next suspect gets its turn.
LONGEST = 60.0


def run(work: Work) -> Result:
    """Localize the failure of one kernel."""
    kernel = work.kernel
    if kernel.primfunc is None:
        return Result(status=StepStatus.FAILED, detail=f"kernel {kernel.name} was not captured as IR")
    named = _by_line_directives(work, kernel)
    if named is not None:
        return named
    work.progress(f"dropping statements of {kernel.name}")
    deadline = time.monotonic() + min(LONGEST, work.seconds)
    try:
        found = localize(
            program(work, kernel),
            work.template(),
            deadline=deadline,
            fault=reported_fault(work.errors, kernel),
            read_source=work.read_source,
        )
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the lowering process does not work: {error}")
    facts = [Fact("culprit.tries", found.tries, work.about, source="drop-statements")]
    if found.location is not None:
        line = f"{found.location.file}:{found.location.line}"
        facts.append(Fact("culprit.line", line, work.about, source="drop-statements"))
    near = _neighbours(found)
    facts += [Fact(f"passing.{n.kind}", f"{n.was} → {n.now}", work.about, source="drop-statements") for n in near]
    return Result(
        outcome=StepOutcome.FINDING if found.location else StepOutcome.UNKNOWN,
        detail=f"{found.how} ({found.tries} lowerings)",
        facts=tuple(facts),
        culprits=(_culprit(kernel, found),),
        bisected=(Bisected(kernel.id, neighbours=near),) if near else (),
    )


def _neighbours(found: Localization) -> tuple[Neighbour, ...]:
    """The nearest passing values of the setting that the fault was found to be about."""
    values = [v for name, values in found.facts.items() if name.startswith("passing.") for v in values]
    near = nearest_of(found.unit, values) if found.unit else None
    return (near,) if near else ()


def _by_line_directives(work: Work, kernel: Kernel) -> Result | None:
    """On a GPU the script compiles as it is; compiled again with line directives, nvcc names the user's line itself."""
    if work.facts.get("run.mode") != "real" or failing_operation(kernel) != "device":
        return None
    subject = program(work, kernel)
    directed = replace(subject, pass_configs={**subject.pass_configs, "tl.emit_line_directives": True})
    try:
        outcome = work.template().run(directed, "device")
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the lowering process does not work: {error}")
    if outcome.error is None:
        return None
    one = decisive(from_event({"error": to_json(outcome.error)}))
    at = next((at for at in one.named if owner_by_path(at.file)), None)
    if at is None:
        return None
    how = "compiled again with line directives, nvcc names this line"
    culprit = Culprit(kernel.id, replace(at, found_by=FoundBy.LINE_DIRECTIVE), confidence=Confidence.CONFIRMED, how=how)
    fact = Fact("culprit.line", f"{at.file}:{at.line}", work.about, source="drop-statements")
    return Result(outcome=StepOutcome.FINDING, detail=how, facts=(fact,), culprits=(culprit,))


def _culprit(kernel: Kernel, found: Localization) -> Culprit:
    passing = tuple(
        f"{name.removeprefix('passing.')} = {value}"
        for name, values in found.facts.items()
        if name.startswith("passing.")
        for value in values
    )
    return Culprit(kernel.id, found.location, found.labels, found.confidence or Confidence.POSSIBLE, found.how, passing)
