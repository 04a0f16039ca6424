"""tolerance-model: does rounding explain the difference that a comparison found? Then the tolerance is too tight, and nothing else is looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from triage.experiment.explained import explained
from triage.experiment.tolerances import Judged
from triage.experiment.twin import Compared
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Fact, FoundBy, NotChecked, StepOutcome
from triage.tools.base import Result, Work
from triage.tools.compared import Seen, comparison_id, seen_by
from triage.tools.twin_runs import BY_DEVICE, of_mismatch

SPEC = ToolSpec(
    "tolerance-model",
    "compare the error with what rounding explains",
    adds=("mismatch.within_model", "mismatch.relative_error", "tolerance.rtol", "tolerance.atol"),
    seconds=lambda facts: 1.0,
)


def run(work: Work) -> Result:
    """Judge the comparison that the step is about, with the others of its run that failed."""
    seen = seen_by(work)
    if seen is None:
        return Result(detail="the run that compared is gone")
    about = comparison_id(work.about)
    failed = {c.id: c for c in seen.run.comparisons if not c.matched}
    if about not in failed:
        return Result(detail="nothing is known of how far the elements are apart")
    compared = failed[about]
    judged = {id: _judged(seen, one) for id, one in failed.items()}
    alone = all(one.within for one in judged.values()) and seen.run.rests_on in (*failed, None)
    one = judged[about]
    hazards = _hazards(compared, one, alone, FoundBy.TWIN if seen.twin else BY_DEVICE)
    return Result(
        outcome=StepOutcome.FINDING if hazards else StepOutcome.UNKNOWN,
        detail=_detail(one),
        facts=tuple(_facts(work, one)),
        hazards=hazards,
        not_checked=(NotChecked("whether rounding explains the difference", one.says),) if one.within is None else (),
    )


def _judged(seen: Seen, compared: Compared) -> Judged:
    return explained(
        compared.mismatch, compared.written, seen.events, seen.run.happenings, seen.record, seen.twin
    )  # fmt: skip


def _hazards(compared: Compared, judged: Judged, alone: bool, by: FoundBy) -> tuple[Hazard, ...]:
    """`alone`: everything that failed is explained by rounding, so that nothing else ended the script. What the script's own arithmetic
    is compared with may not be known: then nobody knows that it asks for too much."""
    if judged.within and alone and judged.allowed is not None and compared.tolerance.get("bounds") != []:
        fields: dict[str, Any] = {
            "rtol": judged.allowed.rtol,
            "atol": judged.allowed.atol,
            "why": judged.says,
            "found_by": by.value,
        }
        return (of_mismatch("tolerance-too-tight", compared, **fields),)
    if judged.accumulator is not None and judged.sum is not None and not judged.others:
        fields = {
            "buffer": judged.sum.buffer,
            "accumulator": judged.accumulator,
            "terms": judged.sum.terms,
            "measured": f"{judged.measured:.2g}",
            "expected": f"{judged.expected:.2g}",
            "found_by": (FoundBy.TWIN if by is FoundBy.TWIN else FoundBy.SPAN).value,
        }
        found = of_mismatch("narrow-accumulator-measured", compared, at=judged.sum.at, **fields)
        # what the program does not say, it may not be able to help: that is what the hardware makes of a wider one
        return (found if judged.accumulator == judged.sum.accumulator else replace(found, certainty="likely"),)
    return ()


def _facts(work: Work, judged: Judged) -> list[Fact]:
    values = {
        "mismatch.within_model": judged.within,
        "mismatch.relative_error": judged.measured,
        "tolerance.rtol": judged.allowed.rtol if judged.allowed else None,
        "tolerance.atol": judged.allowed.atol if judged.allowed else None,
    }
    return [Fact(name, value, work.about, source=SPEC.name) for name, value in values.items() if value is not None]


def _detail(judged: Judged) -> str:
    words = {
        True: "rounding explains it",
        False: "rounding does not explain it",
        None: "nothing says whether it is rounding",
    }
    return f"{words[judged.within]}: {judged.says}"
