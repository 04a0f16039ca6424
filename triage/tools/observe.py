"""observe-run: run the script once under observation, and gather what it told.

This is the only step that executes the user's program as a whole. It adds facts about the run and the kernels; what
its errors mean is for `read-error` to say.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triage.experiment import process
from triage.experiment.errors import OWN, error_events, greeted, silent_interpreter
from triage.experiment.events import Event
from triage.experiment.kernels import Kernel, kernels_of
from triage.experiment.twin import TwinRun, read
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import (
    Artifact,
    Caliber,
    Environment,
    Fact,
    NotChecked,
    StepOutcome,
    StepStatus,
)
from triage.numerics.pattern import describe
from triage.readers import from_event
from triage.tools.base import Result, Work
from triage.tools.error_facts import ADDS, error_facts
from triage.tools.given_references import said
from triage.tools.twin_runs import BY_DEVICE, blind, hidden, of_mismatch, wrong

SPEC = ToolSpec(
    "observe-run",
    "run the script under observation",
    adds=(
        "run.status", "run.code", "run.signal", "run.seconds", "run.compiling", "run.dir", "run.mode", "run.how",
        *ADDS, "kernels.count", "kernels.failing",
        "kernel.failed", "kernel.name", "kernel.file", "kernel.line", "launches.count", "launches.virtual",
        "comparison.verdict", "comparison.function", "tilelang.version", "run.said_no",
        "reference.agreed", "run.killed_by", "run.env", "run.check", "errors.handled", "warnings.count",
    ),
    essential=True,
)  # fmt: skip


#: what no run on the virtual device sees; the CPU twin sees the first and the last of these (`conclusion`)
NO_VALUES = "values, races and speed: no kernel was executed"
NOT_COMPARED = " with a reference"
ANSWERS = "answers of the virtual device: "
ONLY_LAUNCHES = f"{ANSWERS}kernel launches"

#: what a phase that went well did to a kernel, by its target where that matters
PHASES = {
    "lower": {"": "lowered"},
    "codegen": {"": "turned into source"},
    "device": {"": "compiled by the host's compiler", "cuda": "compiled by nvcc", "hip": "compiled by hipcc"},
}


def run(work: Work) -> Result:
    """Run the subject and turn its events into facts and kernels. Never raises for anything the script does."""
    options = work.options
    virtual = "cuda" not in work.capabilities
    subject = process.Subject(
        script=Path(options.script) if options.script else None,
        module=options.module,
        argv=options.argv,
        cwd=Path(options.cwd),
        mode="virtual" if virtual else "real",
        arch=options.arch or process.DEFAULT_ARCH,
        arch_source="argument" if options.arch else "default",
        call=options.call,
        references=work.references,
    )
    done = process.run_subject(
        subject,
        work.dir,
        work.case.blobs,
        python=options.python or None,
        timeout=options.timeout,
        memory=options.memory,
        progress=_progress(work),
    )
    return gather(work, done, virtual)


def gather(work: Work, done: process.Run, virtual: bool) -> Result:
    """The events of a run as facts, kernels, environment and artifacts."""
    events = done.events
    kernels = kernels_of(events)
    errors = error_events(events, work.case.get)
    facts = [*_run_facts(done, work, virtual), *_error_facts(work, errors, greeted(events)), *_kernel_facts(kernels)]
    ended = done.exit.status
    seen = read(events, ended, work.case.get)
    facts += _comparison_facts(events, seen)
    if ended == "succeeded":
        facts += [Fact("run.said_no", text, source="events") for text in _said_no(seen)]
    launches = sum(e["type"] == "launch.begin" for e in events)
    made_up = sum(e["type"] == "launch.begin" and bool(e.get("virtual")) for e in events)
    warnings = sum(e["type"] == "warning" and e.get("origin") != OWN for e in events) or int(
        b"Warning:" in _bytes(done.stderr, done.stdout)
    )
    facts.append(Fact("run.env", environment_changes(events), source="events"))
    facts.append(Fact("launches.virtual", made_up, source="events"))
    facts += [Fact("launches.count", launches, source="events"), Fact("warnings.count", warnings, source="events")]
    options = work.options
    subject = Path(options.script).name if options.script else f"-m {options.module}"
    environment = _environment(work, events, virtual)
    if environment.tilelang:
        facts.append(Fact("tilelang.version", environment.tilelang, source="events"))
    asked = said(work.references, events, seen, twin=False, source=SPEC.name)
    return Result(
        status=StepStatus.TIMED_OUT if ended == "timed_out" else StepStatus.RAN,
        outcome=StepOutcome.CLEAN if ended == "succeeded" else StepOutcome.FINDING,
        detail=_how_it_ended(done.exit),
        facts=(*facts, *asked.facts),
        hazards=(*_failed_check(seen), *hidden(seen, BY_DEVICE), *blind(seen, BY_DEVICE), *asked.hazards),
        kernels=tuple(kernels.values()),
        environments=(environment,),
        artifacts=tuple(_artifacts(work, done)),
        checked=(*_checked(kernels, launches, made_up, ended, greeted(events)), *asked.checked),
        not_checked=(*_not_checked(events, kernels, launches, made_up, subject), *asked.not_checked),
    )


def _progress(work: Work) -> process.Progress:
    def tell(seconds: float, event: Event | None) -> None:
        if event and event["type"] == "compile.begin":
            work.progress(f"{seconds:.0f} s: compiling {event.get('kernel')} ({event.get('phase')})")
        elif event and event["type"] == "launch.begin":
            work.progress(f"{seconds:.0f} s: launching {event.get('kernel')}")
        elif event is None:
            work.progress(f"running the script: {seconds:.0f} s")

    return tell


def _compiling(done: process.Run) -> float:
    """The seconds of a run in which kernels were compiled; a run that compiles none takes so much less."""
    spent = sum(float(event.get("seconds") or 0.0) for event in done.events if event["type"] == "compile.end")
    return min(spent, done.exit.seconds)


def _run_facts(done: process.Run, work: Work, virtual: bool) -> list[Fact]:
    ended = done.exit
    bye = next((e for e in reversed(done.events) if e["type"] == "bye"), None)
    status = ended.status
    facts = [
        Fact("run.status", status, source="exit.json"),
        Fact("run.seconds", round(ended.seconds, 3), unit="s", caliber=Caliber.WALL, source="exit.json"),
        Fact("run.compiling", round(_compiling(done), 3), unit="s", caliber=Caliber.WALL, source="events"),
        Fact("run.dir", str(done.directory.relative_to(work.case.path)), source="observe-run"),
        Fact("run.mode", "virtual" if virtual else "real", source="observe-run"),
        Fact("run.how", bye.get("how") if bye else "unannounced", source="events"),
    ]
    if ended.code is not None:
        facts.append(Fact("run.code", ended.code, source="exit.json"))
    if ended.signal is not None:
        facts.append(Fact("run.signal", ended.signal, source="exit.json"))
    if ended.reason is not None:
        facts.append(Fact("run.killed_by", ended.reason, source="exit.json"))
    return facts


def _error_facts(work: Work, errors: Sequence[Mapping[str, Any]], greeted: bool) -> list[Fact]:
    """The facts of the error that ended the script; what it caught on the way is only counted."""
    facts = [Fact("errors.handled", sum(bool(e.get("handled")) for e in errors), source="events")]
    if not greeted:
        return [*facts, *error_facts(silent_interpreter(work.options.python), work.stages, "events")]
    last = next((e for e in reversed(errors) if not e.get("handled")), None)
    if last is None:
        return facts
    return [*facts, *error_facts(from_event(last), work.stages, "events")]


def _kernel_facts(kernels: Mapping[str, Kernel]) -> list[Fact]:
    facts = [
        Fact("kernels.count", len(kernels), source="events"),
        Fact("kernels.failing", sum(k.failed for k in kernels.values()), source="events"),
    ]
    for kernel in kernels.values():
        about = f"kernel:{kernel.id}"
        facts.append(Fact("kernel.name", kernel.name, about, source="events"))
        facts.append(Fact("kernel.failed", kernel.failed, about, source="events"))
        if kernel.defined_at is not None:
            facts.append(Fact("kernel.file", kernel.defined_at.file, about, source="events"))
            facts.append(Fact("kernel.line", kernel.defined_at.line, about, source="events"))
    return facts


def _failed_check(seen: TwinRun) -> list[Hazard]:
    """The check of its results with which a script ended where a device computed them, or the user's reference that they do not agree with."""
    given = [c for c in seen.comparisons if c.asked_for and not c.matched]
    if given:
        return [of_mismatch("off-given-reference", given[-1], found_by=BY_DEVICE.value)]
    if seen.verdict != "mismatched":
        return []
    compared = wrong(seen)
    at = (compared.at if compared else None) or seen.raised_at
    return [of_mismatch("wrong-on-device", compared, at=at, found_by=BY_DEVICE.value)]


def _said_no(seen: TwinRun) -> list[str]:
    """The first comparison of what a kernel wrote that answered no in a script which went on, if there is one."""
    found = (c for c in seen.comparisons if not c.matched and not c.asked_for and c.of_kernel and c.mismatch and c.at)
    return [f"{c.function} in line {c.at.line}, {describe(c.mismatch)}" for c in found if c.at and c.mismatch][:1]


def _comparison_facts(events: Sequence[Mapping[str, Any]], seen: TwinRun) -> list[Fact]:
    """One verdict for each comparison, and one for the run if its check failed; one over virtual results is never a mismatch, nor one that
    nobody set a tolerance for and that rounding explains."""
    agreed = {c.id for c in seen.comparisons if c.matched}
    facts = []
    for event in events:
        if event["type"] != "compare":
            continue
        made_up = bool(event.get("virtual")) or event.get("matched") is None
        verdict = "virtual" if made_up else "matched" if str(event.get("id")) in agreed else "mismatched"
        caliber = Caliber.VIRTUAL if made_up else Caliber.OBSERVED
        about = f"comparison:{event.get('id')}"
        facts.append(Fact("comparison.verdict", verdict, about, caliber=caliber, source="events"))
        facts.append(Fact("comparison.function", str(event.get("function")), about, source="events"))
    failed = seen.verdict == "mismatched"
    of_run = {"comparison.verdict": "mismatched", "run.check": "failed"} if failed else {}
    return [*facts, *(Fact(name, value, source="events") for name, value in of_run.items())]


def environment_changes(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The variables that the script set before torch or tilelang came, with their last values."""
    return {name: value for e in events if e["type"] == "env" for name, value in (e.get("set") or {}).items()}


def _environment(work: Work, events: Sequence[Mapping[str, Any]], virtual: bool) -> Environment:
    versions = {str(e.get("name")): e.get("version") for e in events if e["type"] == "module"}
    hello = next((e for e in events if e["type"] == "hello"), {})
    device = next((e for e in reversed(events) if e["type"] == "device"), None)
    ran_on = "none" if device is None else f"virtual:{device.get('arch')}" if virtual else "cuda:0"
    details = {"executable": hello.get("executable"), "device": (device or {}).get("why")}
    return Environment(
        "e1",
        python=str(hello.get("python") or ""),
        tilelang=versions.get("tilelang"),
        torch=versions.get("torch"),
        ran_on=ran_on,
        details={k: v for k, v in details.items() if v},
    )


def _how_it_ended(ended: process.Exit) -> str:
    if ended.error:
        return f"could not be started: {ended.error}"
    if ended.status == "timed_out":
        return f"stopped after {ended.seconds:.0f} s"
    if ended.status == "killed":
        return f"killed ({ended.reason})"
    if ended.signal is not None:
        return f"ended by signal {ended.signal}"
    return f"exit status {ended.code}"


def _artifacts(work: Work, done: process.Run) -> list[Artifact]:
    found = []
    for path, kind in ((done.stdout, "stdout"), (done.stderr, "stderr"), (done.stacks, "stacks")):
        if path.is_file() and path.stat().st_size:
            relative = str(path.relative_to(work.case.path))
            found.append(Artifact(relative, kind, hashlib.sha256(path.read_bytes()).hexdigest()))
    return found


def _bytes(*paths: Path) -> bytes:
    return b"".join(path.read_bytes() for path in paths if path.is_file())


def _checked(kernels: Mapping[str, Kernel], launches: int, made_up: int, ended: str, said_hello: bool) -> list[str]:
    lines = ["the script ran to its end [measured here]"] if ended == "succeeded" and said_hello else []
    done = Counter(
        word
        for phase, words in PHASES.items()
        for kernel in kernels.values()
        if kernel.phases.get(phase) is True
        for word in (words.get(str(kernel.target.get("kind"))) or words[""],)
    )
    for word, count in done.items():
        lines.append(f"{count} kernel{'s' * (count != 1)} {word} [measured here]")
    executed = launches - made_up
    if executed:
        lines.append(f"{executed} launch{'es' * (executed != 1)} [measured here]")
    if made_up:
        lines.append(f"the arguments of {made_up} launch{'es' * (made_up != 1)} on the virtual device [measured here]")
    return lines


def _not_checked(
    events: Sequence[Mapping[str, Any]], kernels: Mapping[str, Kernel], launches: int, made_up: int, subject: str
) -> list[NotChecked]:
    lines = []
    skipped = {
        str(reason)
        for k in kernels.values()
        for reason in k.phases.values()
        if isinstance(reason, str) and reason != "unfinished"
    }
    lines += [
        NotChecked("the generated source was not compiled", reason, "triage doctor") for reason in sorted(skipped)
    ]
    if kernels and not launches:
        lines.append(NotChecked(NO_VALUES, "the script launches none"))
    elif made_up:
        again = f"triage run {subject} (on a machine with a GPU)"
        lines.append(NotChecked(NO_VALUES, "no GPU", again))
    answers = sorted({str(e.get("what")) for e in events if e["type"] == "virtual"})
    if answers:
        lines.append(NotChecked(ANSWERS + ", ".join(answers), "made up, not measured"))
    lost = sorted({str(e.get("text")) for e in events if e["type"] == "warning" and e.get("origin") == OWN})
    lines += [NotChecked("what the harness could not record", text) for text in lost]
    uncalled = [str(e.get("name")) for e in events if e["type"] == "uncalled"]
    if uncalled:
        call = f"triage run {subject} --call '{uncalled[0]}(…)'"
        lines.append(NotChecked(f"kernels of {', '.join(uncalled)}", "the script never calls them", call))
    virtual_compares = sum(e["type"] == "compare" and bool(e.get("virtual")) for e in events)
    if virtual_compares:
        what = f"{virtual_compares} comparison{'s' * (virtual_compares != 1)}{NOT_COMPARED}"
        lines.append(NotChecked(what, "the results are virtual"))
    return lines
