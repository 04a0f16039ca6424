"""What a run says of the references that the user gave: which launches agree, which were not compared, and what is wrong with a reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.experiment.comparisons import ASKED
from triage.experiment.events import Event
from triage.experiment.kernels import place_of
from triage.experiment.references import Reference
from triage.experiment.twin import Compared, TwinRun
from triage.lints.hazard import Hazard
from triage.model import Fact, FoundBy, NotChecked

#: how lines begin that a run on the twin may make superfluous
AGAINST = "the launches against --reference "


@dataclass(frozen=True)
class Said:
    """What belongs into the result of the step that made the run."""

    facts: tuple[Fact, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    checked: tuple[str, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()


def said(references: Sequence[Reference], events: Sequence[Event], run: TwinRun, *, twin: bool, source: str) -> Said:
    """What the events of a run say of all references."""
    if not references:
        return Said()
    told = [e for e in events if e["type"] == "reference"]
    names = {str(e.get("kernel")): str(e.get("name")) for e in told}
    compared = [c for c in run.comparisons if c.asked_for]
    agreed = [c for c in compared if c.matched and not c.vacuous]
    hazards, not_checked = [], []
    for reference in references:
        about = [e for e in told if e.get("reference") == reference.text]
        broken = [_unusable(reference, e, twin) for e in about if e.get("what") == "unusable"]
        unfit = [e for e in about if e.get("what") == "unfit"]
        used = any(c.function == f"{ASKED}{reference.text}" for c in compared)
        if not used and not broken:
            broken = list(_never_used(reference, unfit, names, run, twin))
            if not names:
                not_checked.append(_without_launch(reference, run))
        hazards += broken
        for one in unfit:
            why = f"{one.get('why')}{one.get('beside')}"
            not_checked.append(NotChecked(f"{one.get('name')} against {ASKED}{reference.text}", why))
    return Said(
        (Fact("reference.agreed", len(agreed), source=source),),
        tuple(hazards),
        tuple(_agreed(agreed, names, "computed here" if twin else "measured here")),
        tuple(not_checked),
    )


def _without_launch(reference: Reference, run: TwinRun) -> NotChecked:
    if run.computed:
        why = "the script calls no kernel itself; a profiler's launches are not compared with it"
        return NotChecked(f"any launch against {ASKED}{reference.text}", why)
    return NotChecked(f"{AGAINST}{reference.text}", "no launch was computed")


def _unusable(reference: Reference, event: Event, twin: bool, after: str = "") -> Hazard:
    fields = {"reference": reference.text, "why": event.get("why"), "beside": event.get("beside") or "", "after": after}
    fields["found_by"] = (FoundBy.TWIN if twin else FoundBy.FRAME).value
    return Hazard("reference-unusable", "run", place_of(event.get("at")), fields=fields)


def _never_used(
    reference: Reference, unfit: Sequence[Event], names: Mapping[str, str], run: TwinRun, twin: bool
) -> Iterator[Hazard]:
    """Why a reference that the user gave fits none of the launches; nothing where a launch that it is for may be missing."""
    if not names or run.made_up or run.ended != "succeeded":
        return
    if unfit:
        yield _unusable(reference, unfit[0], twin, ", so it was compared with nothing")
    elif reference.kernel is not None:
        there = ", ".join(dict.fromkeys(names.values()))
        why = {"why": f"no kernel named {reference.kernel} is launched", "beside": f"; those that are: {there}"}
        yield _unusable(reference, why, twin)


def _agreed(agreed: Sequence[Compared], names: Mapping[str, str], caliber: str) -> Iterator[str]:
    """A line for each reference and name of a kernel, which may have been built with several sizes."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in agreed:
        groups.setdefault((one.function, names.get(one.kernel) or one.kernel), []).append(one)
    for (function, name), these in groups.items():
        some = f"{len(these)} launch{'es' * (len(these) != 1)} of {name} agree{'s' * (len(these) == 1)}"
        bounds = these[0].tolerance
        first = " in the first of them" if len(these) > 1 else ""
        with_ = f"rtol={bounds.get('rtol', 0.0):.3g}, atol={bounds.get('atol', 0.0):.3g}{first}"
        allowed = next((c.allowed for c in these if c.allowed), "")
        how = f"; as far as rounding goes, for {allowed}" if allowed else ""
        yield f"{some} with {function} ({with_}{how}) [{caliber}]"
