"""repeat: run the script again with the same random numbers, and see whether the comparison fails each time, in the same elements.

A fault of the program's arithmetic comes again, element for element. What does not is a race, or chance in the script.
"""

from __future__ import annotations

import time

from triage.experiment.client import TemplateError
from triage.experiment.reruns import Said
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Fact, FoundBy, Place, StepOutcome, StepStatus
from triage.numerics.repeats import Repeated, repeated
from triage.tools import reruns
from triage.tools.base import Result, Work

SPEC = ToolSpec(
    "repeat",
    "run the comparison again and count",
    adds=("comparison.failure_rate", "comparison.wrong_set", "comparison.repeats"),
    seconds=lambda facts: 5.0 + TIMES * float(facts.get("run.seconds") or 0.0),
)

#: runs on a device …
TIMES = 5
#: … in this part of the time at most: the steps after this one run the script, too
SHARE = 0.4
#: The twin computes the same each time: two runs show whether the script itself does.
TIMES_ON_TWIN = 2


def run(work: Work) -> Result:
    """Repeat the comparison that the step is about."""
    if not reruns.on_device(work) and work.facts.get("comparison.verdict") == "virtual":
        return Result(
            status=StepStatus.SKIPPED,
            detail="no device computed what is compared: made-up values are the same each time",
        )
    asked = reruns.candidate(work)
    if asked is None:
        return Result(detail="a script is run again as it was read, and this run is of a module or the script is gone")
    try:
        with reruns.runner(work) as runner:
            return _result(work, *_repeat(work, runner, asked))
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the script cannot be run again: {error}")


def _repeat(work: Work, runner: ScriptRunner, asked: Candidate) -> tuple[list[Said], str]:
    """What the comparison said each time, and why there are no more of them."""
    times = TIMES if reruns.on_device(work) else TIMES_ON_TWIN
    began = time.monotonic()
    found: list[Said] = []
    for number in range(times):
        spent = time.monotonic() - began
        left = work.seconds * (SHARE if number > 1 else 1.0) - spent
        if found and left < spent / number:
            return found, f"time for {number} of {times} runs"
        if found and repeated([_digest(said) for said in found]).wrong_set == "changes":
            return found, ""  # more of them would tell no more
        work.progress(f"run {number + 1} of {times} with the same seeds")
        shown = runner.again(asked, min(reruns.limit(work), max(left, 1.0)))
        said = reruns.result(work, runner, shown) if shown.status != "infra_error" else None
        if said is None or said.verdict == "virtual":
            return found, shown.why or "no device computed what is compared"
        if said.verdict == "absent":
            return found, f"run {number + 1} {shown.status.replace('_', ' ')} before it came to this comparison"
        found.append(said)
    return found, ""


def _result(work: Work, found: list[Said], why: str) -> Result:
    if not found:
        return Result(status=StepStatus.SKIPPED, detail=f"not repeated: {why}")
    counted = repeated([_digest(said) for said in found])
    values = {
        "comparison.failure_rate": counted.rate,
        "comparison.repeats": counted.runs,
        "comparison.wrong_set": counted.wrong_set,
    }
    facts = [Fact(n, v, work.about, source=SPEC.name) for n, v in values.items() if v is not None]
    steady = counted.rate == 1.0 and counted.wrong_set == "same"
    changes = 0.0 < counted.rate < 1.0 or counted.wrong_set == "changes"
    return Result(
        outcome=StepOutcome.CLEAN if steady else StepOutcome.FINDING if changes else StepOutcome.UNKNOWN,
        detail="; ".join(filter(None, [_words(counted, found), why])),
        facts=tuple(facts),
        hazards=_hazards(work, counted, found) if changes and reruns.on_device(work) else (),
        checked=(f"{counted.runs} runs with the same seeds, the same wrong elements in each [measured here]",)
        if steady
        else (),
    )


def _digest(said: Said) -> str | None:
    return said.digest if said.verdict == "mismatched" else None


def _hazards(work: Work, counted: Repeated, found: list[Said]) -> tuple[Hazard, ...]:
    """A result of a device that is another one from run to run, at the line that compares it."""
    compared = reruns.wanted(work, reruns.observed(work))
    if compared is None:
        return ()
    fields = {
        "function": compared.function,
        "says": _counted(counted, found),
        "found_by": FoundBy.EXPERIMENT.value,
    }
    return (Hazard("result-changes", "run", Place(compared.file, compared.line), fields=fields),)


def _words(counted: Repeated, found: list[Said]) -> str:
    seen = f"so many runs see, with 95 %, what happens in at least {counted.least:.0%} of them"
    return f"{_counted(counted, found)}; {seen}"


def _counted(counted: Repeated, found: list[Said]) -> str:
    counts = sorted({said.wrong for said in found if said.verdict == "mismatched" and said.wrong is not None})
    which = {
        "same": f", the same {_number(counts)} wrong elements each time",
        "changes": f", other wrong elements each time ({_number(counts)})",
    }
    often = f"failed in {counted.failed} of {counted.runs} runs with the same seeds"
    return f"{often}{which.get(counted.wrong_set or '', '')}"


def _number(counts: list[int]) -> str:
    if not counts:
        return ""
    return f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
