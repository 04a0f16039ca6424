"""verify-fix: try what the rule's strategies propose on copies of the script, and say which change may be called the fix."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from triage.experiment.client import TemplateError
from triage.experiment.scripts import Candidate
from triage.graph.spec import ToolSpec
from triage.knowledge.rule import Rule
from triage.lints import DeviceTable, DeviceTableError, load_devices
from triage.model import Fact, Finding, State, StepOutcome, StepStatus
from triage.report.build import rank
from triage.tools.base import ChangedFile, Repair, Result, Work

if TYPE_CHECKING:
    from triage.fixes.files import UserFile
    from triage.fixes.trial import Fault, Seen, Trials
    from triage.fixes.verify import Outcome

SPEC = ToolSpec(
    "verify-fix",
    "try the suggested fix on a copy",
    adds=("fix.tried", "fix.passing", "fix.verified"),
    seconds=lambda facts: 8.0,
)
#: a candidate may take so many times as long as the observed run, in seconds at least `SHORTEST`
PATIENCE, SHORTEST = 3.0, 15.0
#: user's files above this size are not patched
FILE_LIMIT = 1 << 20


def run(work: Work) -> Result:
    """Try fixes for the finding that the report will put first."""
    finding = best(work.findings())
    rule = work.rules.get(finding.rule or "") if finding else None
    strategies = _strategies(work, finding, rule) if finding and rule else ()
    if finding is None or rule is None or not strategies:
        return Result(detail="no repair is known that could be tried for this fault")
    if not work.options.script:
        return Result(detail="changes are tried on a script, and this run is of a module")
    files = {f.path: f for f in _user_files(work, finding)}
    if work.script_path not in files:
        return Result(detail="the script cannot be read as it ran")
    from triage.fixes.nicknames import NicknameTableError

    try:
        return _verified(work, finding, strategies, files)
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"changed copies cannot be run: {error}")
    except (DeviceTableError, NicknameTableError, OSError) as error:
        return Result(status=StepStatus.FAILED, detail=f"nothing could be tried: {error}")


def best(findings: list[Finding]) -> Finding | None:
    """The fault that the report puts first, if something is known about it."""
    faults = rank([f for f in findings if f.level == "fault"])
    return faults[0] if faults and faults[0].state in (State.LOCALIZED, State.CLASSIFIED) else None


def _strategies(work: Work, finding: Finding, rule: Rule) -> tuple[str, ...]:
    from triage.fixes.strategies import applicable

    kernel = work.kernels.get(finding.about.removeprefix("kernel:"))
    record = work.kernel_record(kernel) if kernel else None
    return applicable(rule.fix.strategies, finding.stage, [record] if record else [])


def _user_files(work: Work, finding: Finding) -> Iterator[UserFile]:
    """The user's files that the fault is in or on the way to, as they ran."""
    from triage.fixes.files import read

    named = [work.script_path]
    if finding.location:
        named.append(finding.location.file)
    for error in work.errors:
        named += [frame.file for frame in error.frames if frame.user]
    named += [kernel.defined_at.file for kernel in work.kernels.values() if kernel.defined_at]
    for path in dict.fromkeys(named):
        file = read(path)
        as_it_ran = work.read_source(path)
        small = file is not None and len(file.text) <= FILE_LIMIT
        if file is not None and small and (as_it_ran is None or _same(as_it_ran, file.text)):
            yield file


def _same(kept: str, now: str) -> bool:
    return kept.removeprefix("\ufeff") == now or not now.isascii()


def _verified(work: Work, finding: Finding, strategies: tuple[str, ...], files: dict[str, UserFile]) -> Result:
    from triage.fixes.trial import Trials

    options = work.options
    deadline = time.monotonic() + work.seconds
    limit = max(SHORTEST, PATIENCE * float(work.facts.get("run.seconds") or 0.0))

    def left() -> float:
        return deadline - time.monotonic()

    with work.script_runner() as runner:
        trials = Trials(
            runner,
            Candidate("", options.argv, options.call),
            work.template,
            work.rules,
            work.stages,
            load_devices(work.rules_root / "reference" / "devices.toml"),
            work.facts.get("tilelang.version"),
            limit,
        )
        outcome, start_why = _try(work, finding, strategies, files, trials, left)
    if outcome is None:
        return Result(detail=start_why, repairs=(Repair(finding.rule or "", finding.location, why=start_why),))
    return _result(work, finding, files, outcome)


def _try(
    work: Work,
    finding: Finding,
    strategies: tuple[str, ...],
    files: dict[str, UserFile],
    trials: Trials,
    left: Callable[[], float],
) -> tuple[Outcome | None, str]:
    """The start first: without the device compiler if the fault shows without it."""
    from triage.fixes.nicknames import load_nicknames
    from triage.fixes.proposal import Question
    from triage.fixes.strategies import propose
    from triage.fixes.tree import Sources
    from triage.fixes.verify import verify
    from triage.fixes.vocabulary import ask

    texts = {path: file.text for path, file in files.items()}
    work.progress("running the script as it is on a copy")
    for compile in (False, True):
        start = trials.run(texts, compile)
        fault = _of_finding(start, finding)
        if fault is not None or start.broken:
            break
    if start.broken:
        return None, f"the unchanged script did not come to its end on a copy: {start.broken}"
    if fault is None:
        return None, "the unchanged script does not show this fault on a copy, so no change can be verified"
    question = Question(
        finding, Sources(texts), fault.error, ask(trials.runner, _modules(finding), _targets(trials.devices)), start.records,
        nicknames=load_nicknames(work.rules_root / "reference" / "nicknames.toml"), neighbours=tuple(n for c in work.culprits for n in c.neighbours), fields=fault.fields,
    )  # fmt: skip
    return verify(
        propose(strategies, question), question.sources, texts, finding, start, trials,
        root=_root(work, files), compile=compile, left=left, progress=work.progress,
    ), ""  # fmt: skip


def _of_finding(start: Seen, finding: Finding) -> Fault | None:
    """The fault of a run that is the finding's: of the same rule, on the same line where both know one."""
    for fault in start.faults:
        one, other = fault.finding.location, finding.location
        apart = one is not None and other is not None and (one.file, one.line) != (other.file, other.line)
        if fault.finding.rule == finding.rule and not (apart and fault.finding.state is State.LOCALIZED):
            return fault
    return None


def _result(work: Work, finding: Finding, files: Mapping[str, UserFile], outcome: Outcome) -> Result:
    from triage.fixes.verify import fixes_of

    command = f"triage resume {work.case.path} --step {work.number}"
    chosen = outcome.chosen
    changed = tuple(
        ChangedFile(path, files[path].sha256, work.case.put(text.encode(files[path].encoding)), files[path].encoding)
        for path, text in (chosen.texts.items() if chosen else ())
        if text != files[path].text
    )
    repair = Repair(
        finding.rule or "", finding.location, fixes_of(outcome, command), changed, _root(work, files), outcome.why
    )
    facts = (
        Fact("fix.tried", outcome.count, source=SPEC.name),
        Fact("fix.passing", len(outcome.passing), source=SPEC.name),
        Fact("fix.verified", chosen is not None, source=SPEC.name),
    )
    tried = f"{outcome.count} change{'s' * (outcome.count != 1)} tried"
    said = f"verified: {chosen.proposal.title}" if chosen else outcome.why
    return Result(
        outcome=StepOutcome.FINDING if chosen else StepOutcome.UNKNOWN,
        detail=f"{tried}; {said}",
        facts=facts,
        repairs=(repair,),
    )


def _root(work: Work, files: Mapping[str, UserFile]) -> str:
    """The folder in which a patch applies: the working directory, if the files lie below it."""
    folder = str(Path(work.options.cwd).absolute())
    inside = all(Path(path).is_relative_to(folder) for path in files)
    return folder if inside else os.path.commonpath([str(Path(path).parent) for path in files])


def _targets(devices: DeviceTable) -> tuple[str, ...]:
    """Words that a target may consist of: architectures, also with the letters for their own instructions, and kinds."""
    return (*devices, *(f"{name}a" for name in devices if name.startswith("sm_")), "cuda", "hip", "c", "llvm", "metal")


def _modules(finding: Finding) -> tuple[str, ...]:
    """Modules that the fault names: what they hold is asked, too."""
    module = str(finding.captures.get("module") or "")
    return (module, module.rpartition(".")[0]) if module.startswith("tilelang") else (module,) * (module == "torch")
