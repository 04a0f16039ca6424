"""reference-fp64: run the script again with its reference in float64 beside it, and see which side of a comparison is off."""

from __future__ import annotations

from dataclasses import replace

from triage.experiment.client import TemplateError
from triage.experiment.reruns import Said
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Caliber, Fact, FoundBy, NotChecked, Place, StepOutcome, StepStatus
from triage.numerics.reference import Judgement, growth, judge
from triage.tools import reruns
from triage.tools.base import Result, Work

SPEC = ToolSpec(
    "reference-fp64",
    "compute the reference in fp64",
    adds=("reference.suspect", "reference.error", "reference.kernel_error"),
    seconds=lambda facts: 5.0 + 3.0 * float(facts.get("run.seconds") or 0.0),
)


def run(work: Work) -> Result:
    """Judge the reference of the comparison that the step is about."""
    asked = reruns.candidate(work)
    if asked is None:
        return Result(detail="a script is run again as it was read, and this run is of a module or the script is gone")
    try:
        with reruns.runner(work) as runner:
            return _result(work, *_judged(work, runner, replace(asked, shadow=())))
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the script cannot be run again: {error}")


def _judged(work: Work, runner: ScriptRunner, asked: Candidate) -> tuple[Said | None, Judgement | None, str]:
    """What the comparison said, and whose fault that is; a word about a run that says nothing.

    The float64 reference may have read an input before a launch showed it to be one, and so with the digits that the operator
    which made it rounded off. Where that could matter, a second run takes what these operators made as it is.
    """
    shown = runner.run(asked, reruns.limit(work))
    if shown.status == "infra_error":
        return None, None, f"the run says nothing: {shown.why}"
    said = reruns.result(work, runner, shown)
    if said is None or not said.reference64:
        return said, None, f"the run {shown.status.replace('_', ' ')}"
    judgement = judge(said.reference64)
    makers = said.reference64.get("inputs_made_by")
    if judgement.kind == "unknown" and makers and not asked.shadow:
        work.progress("once more, with the inputs of the launches as they were rounded")
        return _judged(work, runner, replace(asked, shadow=(("leaves", tuple(makers)),)))
    return said, judgement, ""


def _result(work: Work, said: Said | None, judgement: Judgement | None, why: str) -> Result:
    if judgement is None or said is None:
        reason = why if said is None else NOTHING.get(said.verdict, why)
        return Result(detail=f"no float64 value of the reference: {reason}", not_checked=(_unchecked(reason),))
    if said.verdict == "matched" and judgement.kind != "suspect":
        return Result(detail=f"run again with fixed seeds, the comparison agrees; {judgement.says}")
    found = {"reference.error": judgement.reference_error, "reference.kernel_error": judgement.kernel_error}
    facts = [
        Fact(name, value, work.about, caliber=Caliber.OBSERVED, source=SPEC.name)
        for name, value in found.items()
        if value is not None
    ]
    if judgement.kind != "unknown":
        facts.append(Fact("reference.suspect", judgement.kind == "suspect", work.about, source=SPEC.name))
    outcomes = {"suspect": StepOutcome.FINDING, "right": StepOutcome.CLEAN}
    return Result(
        outcome=outcomes.get(judgement.kind, StepOutcome.UNKNOWN),
        detail=judgement.says,
        facts=tuple(facts),
        hazards=(_hazard(said, judgement),) if judgement.kind == "suspect" else (),
        checked=("the reference against its own value in float64 [measured here]",)
        if judgement.kind == "right"
        else (),
        not_checked=(_unchecked(judgement.says),) if judgement.kind == "unknown" else (),
    )


def _hazard(said: Said, judgement: Judgement) -> Hazard:
    """The reference as the rules match it, at the line where its error arises."""
    there = growth(said.reference64)
    fields = {
        "reference": judgement.reference,
        "kernel": judgement.kernel,
        "grows": f"; its error {there.words}" if there else "",
        "found_by": FoundBy.EXPERIMENT.value,
    }
    return Hazard("reference-off-float64", "run", Place(there.file, there.line) if there else None, fields=fields)


#: why a comparison has no float64 value of its reference
NOTHING = {
    "virtual": "the values of a launch were made up",
    "absent": "the script did not come to this comparison when it was run again",
    "matched": "run again with fixed seeds, the comparison agrees",
}


def _unchecked(why: str) -> NotChecked:
    return NotChecked("whether the reference loses precision", why)
