"""The fixed sentences of a report: how a place was found, how sure a conclusion is, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model import Environment, Finding, FoundBy, State, Step, StepOutcome
from triage.report.contract import NeighbourEntry, SwitchSetEntry, SwitchSettingEntry

FOUND_BY = {
    "frame": "the error's own frames lead to this line of your file",
    "line-directive": "the compiler's own message carries this line of your file",
    "experiment": "experiments with changed copies lead to this line",
    "span": "the compiler attached this source position to the statement",
    "lint": "computed from the captured kernel, without running it",
    "twin": "seen while the kernel was computed on the CPU as it is written",
}

CONFIDENCE = {
    "confirmed": "an experiment, or the error's own frame and operands, shows it",
    "likely": "the evidence fits this cause; no counter-experiment was made",
    "possible": "a hint worth following, not a proof",
}

OWNER = {
    "kernel": "your kernel",
    "compiler": "the compiler (TileLang), not your kernel",
    "environment": "the installation or the machine, not your kernel",
    "limitation": "a limitation of TileLang on this target",
    "reference": "the reference you compare with",
    "tolerance": "the tolerance of the comparison",
    "unknown": "",
}

STATE = {
    "localized": "Cause and place found",
    "classified": "Kind of fault found, place not",
    "unknown": "A fault was seen; its cause is not known",
    "healthy": "No fault found",
}

MEASURED_HERE = "measured here"
STATIC = "static"
COMPUTED_HERE = "computed here"
NOT_RUN = "not run"


#: why a step of the graph was not taken: its tool is planned only
NOT_BUILT = "not built yet"
#: the kind of artifact that is the script made small
MINIMIZED = "minimized script"


def measured_on(environment: Environment | None) -> str:
    """`measured on DEVICE` where a GPU ran it, else `measured here`: the compiler itself ran on this machine."""
    if environment is None or not environment.ran_on.startswith("cuda"):
        return MEASURED_HERE
    return f"measured on {environment.details.get('device') or environment.ran_on}"


def basis(subject_kind: str, finding: Finding, steps: Sequence[Step], environments: Sequence[Environment]) -> str:
    """What a finding rests on, by the place's provenance and by the environment of the step that found it."""
    if subject_kind != "script":
        return NOT_RUN
    if finding.location is not None and finding.location.found_by == FoundBy.LINT:
        return STATIC
    if finding.location is not None and finding.location.found_by == FoundBy.TWIN:
        return COMPUTED_HERE
    by_id = {e.id: e for e in environments}
    if finding.state != State.HEALTHY:
        for step in reversed(steps):
            if step.outcome == StepOutcome.FINDING and step.about == finding.about and step.env in by_id:
                return measured_on(by_id[step.env])
    return measured_on(environments[0] if environments else None)


def fix_basis(verified: str, level: str | None) -> str:
    """How far a suggested change was tried: it is a suggestion until something ran with it, and not verified while
    another one that passes, too, means something else."""
    if verified == "not-run":
        return f"{MEASURED_HERE}: {level}, not verified" if level else NOT_RUN
    return f"{MEASURED_HERE}: {level or 'works'}" if verified == "passed" else f"{MEASURED_HERE}: not enough"


def how_sure(state: str, confidence: str, found_by: str | None) -> str:
    """One sentence: the confidence, and what it rests on."""
    if state == "unknown":
        return "unknown: a fault was seen, and nothing known here tells its cause"
    return f"{confidence}: {FOUND_BY[found_by] if found_by else CONFIDENCE[confidence]}"


#: what a switch does to the result of a correct kernel
EFFECT = {
    "preserves": "the result stays the same",
    "reorders-floats": "sums may be rounded otherwise",
    "changes-result": "the result may be wrong",
}
LEVEL = {"lowers": "the kernel lowers", "builds": "the kernel builds"}


def switch_set(one: SwitchSetEntry) -> str:
    """What experiments say of a set of switches, for somebody who does not know the passes of the compiler."""
    changed = " and ".join(map(_setting, one["settings"]))
    passes = f"it governs {', '.join(one['passes'])}" if one["passes"] else "no pass is known that it governs alone"
    return f"with {changed} {LEVEL[one['level']]}, and {EFFECT[one['effect']]}; {passes}; {one['blame']}"


def neighbour(one: NeighbourEntry) -> str:
    """A passing neighbour in words."""
    return f"{one['what']}: {one['now']} works in the place of {one['was']}"


def _setting(one: SwitchSettingEntry) -> str:
    now = {"unset": "left unset", "left out": "left out"}.get(one["now"], f"= {one['now']}")
    was = {"unset": "not set now", "set": ""}.get(one["was"], f"now {one['was']}")
    line = f"line {one['line']}" if one["line"] else ""
    beside = ", ".join(part for part in (was, line) if part)
    return f"{one['what']} {now}" + (f" ({beside})" if beside else "")
