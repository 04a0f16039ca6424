"""cpu-twin: run the script with its kernels computed on the CPU, so that its own comparisons say something."""

from __future__ import annotations

from dataclasses import replace

from triage.experiment.client import TemplateError
from triage.experiment.errors import read_events
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.twin import TwinRun, read
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Caliber, Fact, FoundBy, NotChecked, StepOutcome, StepStatus
from triage.numerics.pattern import pattern_of
from triage.numerics.steps import beyond_rounding
from triage.tools import reruns
from triage.tools.base import Result, Work
from triage.tools.compared import Seen, observed_run, order_decides
from triage.tools.given_references import said
from triage.tools.reruns import TWIN
from triage.tools.twin_runs import blind, hidden, of_happenings, of_mismatch, unchanged, wrong, wrong_on_twin

#: The twin computes in Python what a GPU does in microseconds: seconds that an unchanged script may take on it.
LONGEST = 60.0
#: … and one whose comparisons agreed with what a device computed
LONGEST_OF_RIGHT = 20.0

SPEC = ToolSpec(
    "cpu-twin",
    "compute the kernels on the CPU, as they are written",
    adds=(
        "twin.verdict", "twin.computed", "twin.failed", "twin.gross", "twin.reason", "twin.dir", "twin.status", "twin.seconds", "stages.given", "comparison.verdict", "comparison.function", "mismatch.where", "reference.agreed",
    ),
    seconds=lambda facts: 5.0 + 2.0 * (float(facts.get("run.seconds") or 0.0) - float(facts.get("run.compiling") or 0.0)),
)  # fmt: skip


def run(work: Work) -> Result:
    """Run the unchanged script on the twin and say what its comparisons came to."""
    reason = _pointless(work)
    if reason:
        return Result(detail=reason)
    candidate = unchanged(work)
    if candidate is None:
        return Result(detail="the twin runs a script as it was read, and this run is of a module or the script is gone")
    device = observed_run(work)
    right = device is not None and device.run.verdict == "matched"
    failed = device is not None and device.run.verdict == "mismatched"
    if failed:  # with the random numbers of the device's own repetitions
        candidate = replace(candidate, seed=reruns.SEED)
    longest = LONGEST_OF_RIGHT if right else LONGEST
    try:
        with work.script_runner() as runner:
            shown = runner.run(candidate, min(longest, max(work.seconds, 1.0), work.options.timeout))
            events = read_events(shown.directory)
            run = read(events, shown.status, runner.blob)
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the twin cannot be run: {error}")
    if shown.status == "infra_error":
        return Result(status=StepStatus.FAILED, detail=f"the twin came to no end: {shown.why}")
    verdict = run.verdict
    if (right and verdict == "mismatched") or (failed and verdict == "matched"):
        verdict = _beside_device(work, verdict)
    asked = said(work.references if run.computed else (), events, run, twin=True, source=SPEC.name)
    hazards = [*_hazards(verdict, run, device), *asked.hazards]
    return Result(
        status=StepStatus.TIMED_OUT if shown.status == "timed_out" else StepStatus.RAN,
        outcome=StepOutcome.FINDING if hazards else StepOutcome.CLEAN if verdict == "matched" else StepOutcome.UNKNOWN,
        detail=_detail(verdict, run, shown.seconds),
        facts=(
            *_facts(verdict, run),
            *_gross(verdict, device),
            *_where(work, shown),
            *asked.facts,
            Fact("stages.given", bool(work.options.stages), source=SPEC.name),
        ),
        hazards=(*hazards, *blind(run)),
        checked=(*_checked(run), *asked.checked),
        not_checked=(*_not_checked(run, bool(work.facts.get("launches.virtual"))), *asked.not_checked),
    )


def _beside_device(work: Work, verdict: str) -> str:
    """The verdict of the twin where the device came to another one: `disagrees` if the twin alone is wrong, `unknown` if the device
    comes to the twin's with the same random numbers, or to nothing. Scripts that do not seed theirs compare other values each time."""
    script = reruns.candidate(work)
    if script is None:
        return verdict
    work.progress("once more on the device, with the same random numbers")
    try:
        with work.script_runner() as runner:
            here = _verdict(runner, replace(script, twin=()), reruns.limit(work))
        with reruns.runner(work) as runner:
            there = _verdict(runner, script, reruns.limit(work))
    except TemplateError:
        return verdict
    if (here, there) == ("mismatched", "matched"):
        return "disagrees"
    return "matched" if (here, there) == ("matched", "mismatched") else "unknown"


def _verdict(runner: ScriptRunner, script: Candidate, seconds: float) -> str:
    shown = runner.again(script, seconds)
    return read(read_events(shown.directory), shown.status, runner.blob).verdict


def _hazards(verdict: str, run: TwinRun, device: Seen | None) -> list[Hazard]:
    """What the twin showed, beside what a device did if there was one."""
    if verdict == "disagrees":
        return [of_mismatch("twin-disagrees", wrong(run))]
    wrong_on_device = device is not None and device.run.verdict == "mismatched"
    hazards = of_happenings(run, wrong_on_device)
    if verdict == "mismatched":
        hazards.append(wrong_on_twin(run))
    hazards += hidden(run)
    if device is not None and _only_on_device(verdict, device.run):
        hazards.append(_of_device(device))
    return hazards


def _only_on_device(verdict: str, device: TwinRun) -> bool:
    """Whether a device computed wrong, by more than rounding, what the twin computed right."""
    compared = wrong(device) if verdict == "matched" and device.verdict == "mismatched" else None
    found = compared.mismatch.differences if compared and compared.mismatch else None
    return found is not None and beyond_rounding(found)


def _of_device(device: Seen) -> Hazard:
    """What a device alone computed wrong: the compiler's fault, unless the kernel leaves open in which order it reads and writes."""
    compared = wrong(device.run)
    decided = order_decides(device, compared.writers if compared else ())
    if decided is not None:
        at, buffer = decided
        return of_mismatch("order-decides", compared, at=at, buffer=buffer, found_by=FoundBy.LINT.value)
    return of_mismatch("right-on-twin", compared, found_by=FoundBy.TWIN.value)


def _pointless(work: Work) -> str:
    """Why the twin could tell nothing of this script; "" if it could."""
    if work.facts.get("run.status") in ("timed_out", "killed"):
        return "the script came to no end, and would come to none on the twin"
    if not work.facts.get("launches.count"):
        return "the script launches no kernel"
    if work.facts.get("kernels.failing"):
        return "a kernel does not compile; what it would compute says nothing of that"
    return ""


def _facts(verdict: str, run: TwinRun) -> list[Fact]:
    facts = [
        Fact("twin.verdict", verdict, source=SPEC.name),
        Fact("twin.computed", run.computed, source=SPEC.name),
        Fact("twin.failed", sum(not compared.matched for compared in run.comparisons), source=SPEC.name),
    ]
    if run.made_up:
        facts.append(Fact("twin.reason", next(iter(run.made_up)), source=SPEC.name))
    for compared in run.comparisons:
        about = f"comparison:{TWIN}{compared.id}"
        facts.append(
            Fact("comparison.verdict", "matched" if compared.matched else "mismatched", about, source=SPEC.name)
        )
        facts.append(Fact("comparison.function", compared.function, about, source=SPEC.name))
        if compared.mismatch is not None:
            facts.append(Fact("mismatch.where", str(pattern_of(compared.mismatch)), about, source=SPEC.name))
    return facts


def _gross(verdict: str, seen: Seen | None) -> list[Fact]:
    return [Fact("twin.gross", seen is not None and _only_on_device(verdict, seen.run), source=SPEC.name)]


def _where(work: Work, shown: Shown) -> list[Fact]:
    """Where the run lies, for the steps after this one."""
    return [
        Fact("twin.dir", str(shown.directory.relative_to(work.case.path.absolute())), source=SPEC.name),
        Fact("twin.status", shown.status, source=SPEC.name),
        Fact("twin.seconds", shown.seconds, unit="s", caliber=Caliber.WALL, source=SPEC.name),
    ]


def _detail(verdict: str, run: TwinRun, seconds: float) -> str:
    launches = f"{run.computed} launch{'es' * (run.computed != 1)} computed"
    if run.made_up:
        launches += f", {sum(run.made_up.values())} not"
    other = run.verdict != "unknown"
    said = {
        "matched": "what is compared agrees",
        "mismatched": "the given reference does not agree" if _asked_and_wrong(run) else "the script's own check fails",
        "disagrees": "the same check fails here, and passed on the device",
        "unknown": "the device comes to the same with the same random numbers"
        if other
        else "nothing was compared that says something",
    }
    return f"{launches} in {seconds:.1f} s; {said[verdict]}"


def _asked_and_wrong(run: TwinRun) -> bool:
    return any(c.asked_for and not c.matched for c in run.comparisons)


def _checked(run: TwinRun) -> list[str]:
    if not run.computed:
        return []
    some = f"{run.computed} launch{'es' * (run.computed != 1)} on the CPU twin"
    agree = sum(c.matched and not c.vacuous and not c.asked_for for c in run.comparisons)
    compared = f"; {agree} comparison{'s' * (agree != 1)} agreed" if agree else ""
    return [f"the values of {some}{compared} [computed here]"]


def _not_checked(run: TwinRun, no_device: bool) -> list[NotChecked]:
    """`no_device`: launches of the observed run were computed by none."""
    lines = [
        NotChecked(f"the values of {count} launch{'es' * (count != 1)} on the CPU twin", reason)
        for reason, count in run.made_up.items()
    ]
    if run.computed:
        lines.append(
            NotChecked(
                "values as the GPU computes them, races and speed" if no_device else "races and speed",
                "the twin does what the program says, one block after another",
            )
        )
    return lines
