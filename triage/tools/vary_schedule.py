"""vary-schedule: does what launches write depend on how the work is cut into tiles? A check without a reference, for scripts that compare nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triage.experiment.client import TemplateError
from triage.experiment.comparisons import SCHEDULED
from triage.experiment.errors import read_events
from triage.experiment.events import Event
from triage.experiment.references import tolerances
from triage.experiment.schedules import Schedule, schedules
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.twin import Compared, TwinRun, read
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Fact, FoundBy, KernelRecord, Label, NotChecked, Place, StepOutcome, StepStatus
from triage.numerics.decided import may_be_decided_by_rounding
from triage.tools import reruns
from triage.tools.base import Result, Work
from triage.tools.compared import twin_run
from triage.tools.twin_runs import of_mismatch, unchanged

SPEC = ToolSpec(
    "vary-schedule",
    "compare the results of other tile sizes",
    adds=("schedule.tried", "schedule.differing"),
    seconds=lambda facts: 2.0 + 3.0 * float(facts.get("twin.seconds") or 0.0),
)
#: a run with another schedule may take so many times as long as the unchanged one, and so many seconds at least
PATIENCE, SHORTEST = 6.0, 5.0
#: what the interpreter met that is no fault of a right kernel with smaller or larger tiles
HARMLESS = frozenset({"uninitialized-read"})
#: how the run of the script as it is, with which a difference is confirmed, is called, and why none of its differences counts
UNCHANGED = "unchanged sizes"
UNSTABLE = "with its own sizes, too, the script writes something else each time"


@dataclass(frozen=True)
class Outcome:
    """What came of a schedule: the comparisons that were made, or why there are none."""

    schedule: Schedule
    compared: tuple[Compared, ...] = ()
    why: str = ""

    @property
    def differing(self) -> Compared | None:
        """The first launch that wrote something else."""
        return next((one for one in self.compared if not one.matched), None)


def run(work: Work) -> Result:
    """Run the script on the twin with other tile sizes, and hold what its launches write against what they wrote."""
    candidate, seen = unchanged(work), twin_run(work)
    reason = _pointless(work, candidate is not None, seen.run if seen else None)
    if reason or candidate is None or seen is None:
        return Result(detail=reason)
    candidate = replace(candidate, references=(), seed=reruns.SEED)  # else each run would draw other inputs
    found = schedules(candidate.source, _extents(seen.records.values()))
    left_alone = [NotChecked(f"the result with another {name}", why) for name, why in found.left_alone]
    if not found.schedules:
        return Result(detail="no number in the script is only the size of a tile", not_checked=tuple(left_alone))
    try:
        with work.script_runner() as runner:
            outcomes = _outcomes(work, runner, candidate, found.schedules, _rounds(seen.records.values()))
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the script cannot be run again: {error}")
    return _result(work, outcomes, left_alone)


def _pointless(work: Work, readable: bool, run: TwinRun | None) -> str:
    """Why other schedules could tell nothing; "" if they could."""
    if not readable or run is None:
        return "the script cannot be read, or was not run on the twin"
    if work.facts.get("run.status") != "succeeded" or run.ended != "succeeded":
        return "the script comes to no end of its own"
    if not run.computed or run.made_up:
        return "the twin did not compute all launches"
    if any(not one.vacuous for one in run.comparisons):
        return "the script compares its results itself"
    return ""


def _extents(records: Iterable[KernelRecord]) -> set[int]:
    """The sizes of the tensors that kernels are given."""
    shapes = (shape for record in records for shape in _shapes(record))
    return {extent for shape in shapes for extent in shape if isinstance(extent, int)}


def _rounds(records: Iterable[KernelRecord]) -> bool:
    """Whether a kernel has floating-point numbers anywhere."""
    return any("float" in buffer.dtype for record in records for buffer in record.buffers)


def _shapes(record: KernelRecord) -> Iterator[Sequence[Any]]:
    return (buffer.shape for buffer in record.buffers if buffer.scope == "global")


def _outcomes(
    work: Work, runner: ScriptRunner, start: Candidate, some: Sequence[Schedule], rounds: bool
) -> list[Outcome]:
    """What comes of each schedule, as far as the step's time goes; `rounds`: the kernels compute in floating point.

    A difference counts only where the unchanged script repeats itself.
    """
    deadline = time.monotonic() + work.seconds
    usual = max(SHORTEST, PATIENCE * float(work.facts.get("twin.seconds") or 0.0))

    def shown(candidate: Candidate) -> Shown:
        return runner.run(candidate, min(usual, max(deadline - time.monotonic(), 1.0)))

    first = shown(replace(start, settings=_settings()))
    launches = _final([event for event in read_events(first.directory) if event["type"] == "recorded"])
    before = read(read_events(first.directory), first.status, runner.blob)

    def compared(name: str, source: str) -> tuple[tuple[Compared, ...], str]:
        settings = _settings(says=f"{SCHEDULED}{name}", launches=launches)
        return _compared(runner, name, shown(replace(start, source=source, settings=settings)), before)

    def outcome(schedule: Schedule) -> Outcome:
        made, why = compared(str(schedule), schedule.apply(start.source))
        decided = [one for one in made if rounds and one.mismatch and may_be_decided_by_rounding(one.mismatch)]
        rest = tuple(one for one in made if one not in decided)
        only = bool(decided) and all(one.matched for one in rest)
        return Outcome(schedule, () if only else rest, _decided(decided[0]) if only else why)

    found = []
    for schedule in some:
        if time.monotonic() > deadline:
            found.append(Outcome(schedule, why="no time was left for it"))
            continue
        work.progress(f"the same with {schedule}")
        found.append(outcome(schedule))
    if any(one.differing for one in found):
        work.progress("the unchanged script once more")
        again, why = compared(UNCHANGED, start.source)
        if why or not all(one.matched for one in again):
            return [replace(one, compared=(), why=one.why or UNSTABLE) for one in found]
    return found


def _decided(compared: Compared) -> str:
    found = compared.mismatch
    few = f"{found.wrong} of {found.total} elements" if found else "a few elements"
    return f"{few} differ, as they may where a value is rounded to a step or chosen among others, and the last bit of a sum decides"


def _final(launches: Sequence[Event]) -> list[dict[str, Any]]:
    """The launches with those of their outputs that may not depend on the schedule: of the kernel that is launched last, and not read by another launch. What
    a kernel leaves for another may well be cut as the work is."""
    found = []
    for number, one in enumerate(launches):
        read = {memory for later in launches[number + 1 :] for memory in later["given"]}
        last = one["name"] == launches[-1]["name"]
        outputs = [
            o if last and o["memory"] not in read else {k: v for k, v in o.items() if k != "blob"}
            for o in one["outputs"]
        ]
        found.append({"name": one["name"], "outputs": outputs})
    return found


def _settings(**asked: Any) -> str:
    return json.dumps({"recorded": {"tolerances": tolerances(), **asked}}, sort_keys=True)


def _compared(runner: ScriptRunner, name: str, shown: Shown, before: TwinRun) -> tuple[tuple[Compared, ...], str]:
    """The comparisons of this name that a run made with what was put aside, or why there are none."""
    events = read_events(shown.directory)
    if shown.status != "succeeded":
        return (), "the script does not come to its end with it"
    run = read(events, shown.status, runner.blob)
    if run.made_up or run.computed < before.computed:
        return (), "the twin did not compute all launches with it"
    if _worst(run) - _worst(before):
        return (), "with it the kernel reaches beyond a tensor, which it may leave to its sizes"
    unfit = next((str(e["why"]) for e in events if e["type"] == "recorded" and e.get("why")), "")
    compared = tuple(one for one in run.comparisons if one.function == f"{SCHEDULED}{name}")
    return compared, "" if compared else unfit or "no launch was compared"


def _worst(run: TwinRun) -> set[tuple[str, str]]:
    found = {(str(h.get("kind")), str(h.get("buffer"))) for h in run.happenings}
    return {(kind, buffer) for kind, buffer in found if kind not in HARMLESS}


def _result(work: Work, outcomes: Sequence[Outcome], left_alone: Sequence[NotChecked]) -> Result:
    tried = [one for one in outcomes if one.compared]
    differing = [one for one in tried if one.differing is not None]
    agreeing = [one for one in tried if one.differing is None]
    failed = [NotChecked(f"the result with {one.schedule}", one.why) for one in outcomes if one.why]
    names = ", ".join(str(one.schedule) for one in agreeing)
    count = len(agreeing[0].compared) if agreeing else 0
    said = f"what {count} launch{'es' * (count != 1)} write{'s' * (count == 1)} is the same with {names}, as far as rounding goes [computed here]"
    return Result(
        outcome=StepOutcome.FINDING if differing else StepOutcome.CLEAN if agreeing else StepOutcome.UNKNOWN,
        detail=_detail(tried, differing),
        facts=(
            Fact("schedule.tried", len(tried), source=SPEC.name),
            Fact("schedule.differing", len(differing), source=SPEC.name),
        ),
        hazards=tuple(_hazards(work, differing)),
        checked=(said,) if agreeing else (),
        not_checked=(*left_alone, *failed),
    )


def _detail(tried: Sequence[Outcome], differing: Sequence[Outcome]) -> str:
    if not tried:
        return "no other tile size could be compared"
    if differing:
        return f"{len(differing)} of {len(tried)} other tile sizes change the result: {differing[0].schedule}"
    return f"{len(tried)} other tile sizes give the same result"


def _hazards(work: Work, differing: Sequence[Outcome]) -> Iterator[Hazard]:
    """Of the schedules that change the result the first, the others as labels. A loop over steps has to come to the same however far a step goes; what
    each block does for itself may be meant so."""
    for one in sorted(differing, key=lambda one: not one.schedule.steps)[:1]:
        compared = one.differing
        others = [other.schedule for other in differing if other.schedule.line != one.schedule.line]
        labels = [Label(work.script_path, other.line, f"with {other} it is another, too") for other in others]
        if compared is not None and compared.at is not None:
            labels.append(Label(compared.at.file, compared.at.line, "the launch whose result is another"))
        at = Place(work.script_path, one.schedule.line)
        fields = {
            "name": one.schedule.name,
            "old": one.schedule.old,
            "new": one.schedule.new,
            "found_by": FoundBy.TWIN.value,
        }
        kind = "result-depends-on-schedule" if one.schedule.steps else "result-depends-on-block"
        hazard = of_mismatch(kind, compared, at, **fields)
        yield replace(hazard, labels=tuple(labels))
