"""compare-stages: after which statement does a tile first hold something else than the user's stage-by-stage reference says?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from triage.experiment.client import TemplateError
from triage.experiment.errors import read_events
from triage.experiment.events import Event
from triage.experiment.kernels import kernels_of, place_of, record_of
from triage.experiment.references import Reference, tolerances
from triage.experiment.unproven import unproven
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Fact, FoundBy, KernelRecord, Label, NotChecked, StepOutcome, StepStatus
from triage.tools.base import Result, Work
from triage.tools.twin_runs import unchanged

SPEC = ToolSpec(
    "compare-stages",
    "compare tiles with the stages that the user gave",
    adds=("stages.met", "stages.missed", "stages.line"),
    seconds=lambda facts: 2.0 + 2.0 * float(facts.get("twin.seconds") or 0.0),
)
#: a run that is watched may take so many times as long, and so many seconds at least
PATIENCE, SHORTEST = 6.0, 20.0


def run(work: Work) -> Result:
    """Run the script on the twin once more and hold the tiles of some blocks against the stages."""
    candidate = unchanged(work)
    if not work.stage_references:
        return Result(detail="no stages were given")
    if candidate is None:
        return Result(detail="the script cannot be read")
    asked = {"stages": [asdict(one) for one in work.stage_references], "tolerances": tolerances()}
    content = hashlib.sha256(
        b"".join(_content(one) for one in work.stage_references)
    ).hexdigest()  # a changed file is asked again
    settings = json.dumps({**asked, "content": content}, sort_keys=True)
    limit = min(max(SHORTEST, PATIENCE * float(work.facts.get("twin.seconds") or 0.0)), max(work.seconds, 1.0))
    try:
        with work.script_runner() as runner:
            shown = runner.run(replace(candidate, references=(), settings=settings), limit)
            events = read_events(shown.directory)
            kernels = {id: record_of(kernel, runner.blob) for id, kernel in kernels_of(events).items()}
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the script cannot be run again: {error}")
    told = [event for event in events if event["type"] == "stage"]
    return _result(work, told, kernels)


def _content(given: Reference) -> bytes:
    path = Path(given.file)
    return path.read_bytes() if given.file and path.is_file() else b""


def _result(work: Work, told: Sequence[Event], kernels: dict[str, KernelRecord | None]) -> Result:
    stages = [one for one in told if one["what"] == "stage"]
    met, missed = [one for one in stages if one["met"]], [one for one in stages if not one["met"]]
    hazards = [_unusable(one) for one in told if one["what"] == "unusable"][:1]
    for one in missed[:1]:
        before = [other for other in met if (other["kernel"], other["reference"]) == (one["kernel"], one["reference"])]
        hazards += list(_differs(one, before, kernels.get(str(one["kernel"])), work))
    facts = [
        Fact("stages.met", len(met), source=SPEC.name),
        Fact("stages.missed", len(missed), source=SPEC.name),
    ]
    if missed and hazards and hazards[-1].at is not None and hazards[-1].at.file == work.script_path:
        facts.append(Fact("stages.line", hazards[-1].at.line, source=SPEC.name))
    outcome = StepOutcome.FINDING if hazards else StepOutcome.CLEAN if met else StepOutcome.UNKNOWN
    return Result(
        outcome=outcome,
        detail=_detail(met, missed, hazards),
        facts=tuple(facts),
        hazards=tuple(hazards),
        checked=tuple(_checked(met)) if not missed else (),
        not_checked=()
        if told
        else (NotChecked("the tiles against --stages", "no launch of such a kernel was computed on the twin"),),
    )


def _detail(met: Sequence[Event], missed: Sequence[Event], hazards: Sequence[Hazard]) -> str:
    if missed:
        one = missed[0]
        return f"{len(met)} stages hold; {one['buffer']} does not come to stage {one['number'] + 1} in block {tuple(one['block'])}"
    if met:
        return f"all {len(met)} stages hold"
    return "the stages cannot be used" if hazards else "no launch was compared with the stages"


def _checked(met: Sequence[Event]) -> Iterator[str]:
    for text, kernel in dict.fromkeys((str(one["reference"]), str(one["name"])) for one in met):
        some = [one for one in met if (one["reference"], one["name"]) == (text, kernel)]
        count, blocks = len({one["number"] for one in some}), some[0]["blocks"]
        yield f"{count} stages of {text} against the tiles of {blocks} block{'s' * (blocks != 1)} of {kernel} [computed here]"


def _unusable(event: Event) -> Hazard:
    fields: dict[str, Any] = {"reference": event.get("reference"), "why": event.get("why")}
    fields |= {"beside": event.get("beside") or "", "found_by": FoundBy.TWIN.value}
    return Hazard("stages-unusable", "run", place_of(event.get("at")), fields=fields)


def _differs(missed: Event, met: Sequence[Event], record: KernelRecord | None, work: Work) -> Iterator[Hazard]:
    """The statement that is the first to leave something else in a tile; several, or what it reads and nobody stated, as labels."""
    places = [place for one in missed["suspects"] if (place := place_of(one)) is not None]
    last = place_of(met[-1]["at"]) if met else None
    if not places:
        yield _never(missed, last)
        return
    at, *others = places
    stated, known = set(missed["stated"]), {str(one["buffer"]) for one in met}
    doubts = dict(pair for place in places for pair in unproven(record, place, str(missed["buffer"]), stated, known))
    labels = [Label(place.file, place.line, f"{missed['buffer']} is written here, too") for place in others]
    labels += [Label(place.file, place.line, why) for place, why in doubts.items() if place not in places]
    if last is not None:
        labels.append(Label(last.file, last.line, f"{met[-1]['buffer']} is still as stage {missed['number']} says"))
    kind = "stage-differs" if not others and not doubts else "stage-may-differ"
    yield Hazard(kind, "run", at, tuple(labels), _fields(missed))


def _never(missed: Event, last: Any) -> Hazard:
    """A stage whose buffer nobody writes any more."""
    return Hazard("stage-may-differ", "run", last, (), {**_fields(missed), "much": "nobody writes it any more"})


def _fields(missed: Event) -> dict[str, Any]:
    count = missed["iteration"]
    round_ = f", in round {', '.join(map(str, count))} of the loops around" if count else ""
    return {
        "buffer": missed["buffer"],
        "stage": missed["number"] + 1,
        "reference": missed["reference"],
        "block": f"block {tuple(missed['block'])}",
        "much": f"{missed['wrong']} of {missed['total']} elements are off",
        "round": round_,
        "found_by": FoundBy.TWIN.value,
    }
