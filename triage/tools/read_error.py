"""read-error: from what the run printed and told, the errors and warnings that rules are asked about. How errors are found stands in `experiment/errors.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triage.experiment.errors import Observed, errors_of, location, read_events
from triage.graph.spec import ToolSpec
from triage.model import Fact, StepOutcome, WarningRecord
from triage.readers import Reading
from triage.tools import observe
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
    warnings = all_warnings(observed.events, readings)
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


def all_warnings(events: Sequence[Mapping[str, Any]], readings: Mapping[str, Reading]) -> list[WarningRecord]:
    """Warnings of Python (as events) and of the compiler (as text), each once."""
    found = [
        WarningRecord(str(e.get("text")), str(e.get("origin")), location(e.get("at")))
        for e in events
        if e["type"] == "warning" and e.get("origin") != observe.OWN
    ]
    told = {w.text for w in found}
    for reading in readings.values():
        found += [w for w in reading.warnings if not any(w.text in text or text in w.text for text in told)]
    return list(dict.fromkeys(found))
