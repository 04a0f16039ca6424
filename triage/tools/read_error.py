"""read-error: from what the run printed and told, the errors and warnings that rules are asked about. How errors are found stands in `experiment/errors.py`."""

from __future__ import annotations

from triage.experiment.errors import Observed, errors_of, read_events, warnings_of
from triage.graph.spec import ToolSpec
from triage.model import Fact, StepOutcome
from triage.tools.base import Result, Work
from triage.tools.error_facts import ADDS, error_facts

SPEC = ToolSpec(
    "read-error",
    "read the error: stage, frames, the decisive line",
    adds=(*ADDS, "errors.count", "warnings.count"),
    essential=True,
)


def run(work: Work) -> Result:
    """Read the streams and events of the observed run."""
    directory = work.case.path / str(work.facts["run.dir"])
    options = work.options
    observed = Observed(
        directory,
        read_events(directory),
        list(work.kernels.values()),
        work.case.get,
        script=options.script,
        timeout=options.timeout,
        python=options.python,
    )
    readings = observed.readings()
    errors = errors_of(observed, readings)
    warnings = warnings_of(observed.events, readings)
    last = next((e for e in reversed(errors) if not (e.recovered or e.stubbed)), None)
    facts = [Fact("errors.count", len(errors)), Fact("warnings.count", len(warnings))]
    if last is not None:
        facts += error_facts(last, work.stages, SPEC.name)
    found = bool(last or warnings)
    return Result(
        outcome=StepOutcome.FINDING if found else StepOutcome.CLEAN,
        detail=f"{len(errors)} error(s), {len(warnings)} warning(s)",
        facts=tuple(facts),
        errors=tuple(errors),
        warnings=tuple(warnings),
    )
