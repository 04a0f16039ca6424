"""What a tool gets and what it gives back.

A tool is a module with a `SPEC` (what the graph must know) and a function `run(work) -> Result`. It reads the case through
`Work`, and whatever it learns goes into the `Result`: facts for edges and rules, records for rules, kernels for the
tools after it. It writes nothing but its own step folder and blobs, so the walk can be replayed from the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.case import Case
from triage.experiment.kernels import Kernel, record_of
from triage.experiment.references import Reference, read_reference
from triage.experiment.scripts import ScriptRunner
from triage.experiment.template import Template
from triage.lints.hazard import Hazard
from triage.model import (
    Artifact,
    Confidence,
    Environment,
    ErrorRecord,
    Fact,
    Finding,
    Fix,
    KernelRecord,
    Label,
    Location,
    Neighbour,
    NotChecked,
    StepOutcome,
    StepStatus,
    SwitchSet,
    WarningRecord,
)

if TYPE_CHECKING:
    from triage.knowledge.rule import RuleSet
    from triage.knowledge.stages import Stages


@dataclass(frozen=True)
class Options:
    """What the user asked for on the command line; part of the case, so that `resume` does the same."""

    script: str = ""
    module: str | None = None
    argv: tuple[str, ...] = ()
    cwd: str = "."
    python: str = ""
    arch: str | None = None
    call: str | None = None
    kernel: str | None = None
    timeout: float = 300.0
    memory: int | None = None
    #: seconds for experiments; None for what is usual on the machine
    budget: float | None = None
    experiments: bool = True
    ignore: tuple[str, ...] = ()
    #: functions to compare launches with, as they were given (`experiment/references.py`)
    reference: tuple[str, ...] = ()
    #: functions that tell the values of tiles stage by stage, likewise
    stages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Culprit:
    """Where experiments on a captured kernel found the fault: the place, and how much of the kernel shows it alone."""

    kernel: str
    location: Location | None
    labels: tuple[Label, ...] = ()
    confidence: Confidence = Confidence.LIKELY
    #: one sentence: which experiments led here
    how: str = ""
    #: what would lower instead, as `threads=128`
    neighbours: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bisected:
    """What makes the fault of one kernel go, and the nearest values that work; see `experiment/bisect.py`."""

    kernel: str
    sets: tuple[SwitchSet, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    #: the experiments show that the compiler is at fault, and not the kernel
    compiler: bool = False


@dataclass(frozen=True)
class ChangedFile:
    """A file of the user as a fix would leave it: the SHA-256 of what it holds now, and the blob of what it would hold."""

    path: str
    before: str
    after: str
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Repair:
    """The fixes that were tried for one finding, known by its rule and place; `files` are those of a verified one.

    `root` is the folder in which its patch applies; `why` says why none is verified.
    """

    rule: str
    location: Location | None
    fixes: tuple[Fix, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    root: str = ""
    why: str = ""


@dataclass(frozen=True)
class Result:
    """The outcome of one step. `kernels` replaces the known kernels of the same id."""

    status: StepStatus = StepStatus.RAN
    outcome: StepOutcome = StepOutcome.UNKNOWN
    detail: str = ""
    facts: tuple[Fact, ...] = ()
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[WarningRecord, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    bisected: tuple[Bisected, ...] = ()
    repairs: tuple[Repair, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    environments: tuple[Environment, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    checked: tuple[str, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()


@dataclass(frozen=True)
class Work:
    """What a tool may look at while it runs one step."""

    case: Case
    options: Options
    about: str
    number: int
    dir: Path
    #: seconds this step may take
    seconds: float
    capabilities: frozenset[str]
    facts: Mapping[str, Any]
    kernels: Mapping[str, Kernel]
    errors: tuple[ErrorRecord, ...]
    #: what the rules make of everything known by now
    findings: Callable[[], list[Finding]]
    culprits: tuple[Culprit, ...]
    rules: RuleSet
    stages: Stages
    rules_root: Path
    #: the text of a user's file as it was when it ran, None where it was not kept
    read_source: Callable[[str], str | None]
    #: the running template of lowering experiments, started when it is first asked for; raises `TemplateError`
    template: Callable[[], Template]
    #: tell the user what is going on, one short line
    progress: Callable[[str], None] = lambda line: None

    @property
    def kernel(self) -> Kernel:
        """The kernel this step is about. Raises `KeyError` for a step about something else."""
        return self.kernels[self.about.removeprefix("kernel:")]

    @property
    def script_path(self) -> str:
        """The script as frames and records name it."""
        return os.path.abspath(self.options.script)

    @property
    def script_source(self) -> str | None:
        """The text of the script as it ran; None for a module, or where it was not kept."""
        return self.read_source(self.script_path) if self.options.script else None

    def kernel_record(self, kernel: Kernel) -> KernelRecord | None:
        """The record of a kernel as data, None where the harness could not make one."""
        return record_of(kernel, self.case.get)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the script set before its imports: experiments must see them, too."""
        return variables_set(self.facts.get("run.env"))

    @property
    def references(self) -> tuple[Reference, ...]:
        """The user's functions with which launches are compared."""
        return self._functions(self.options.reference)

    @property
    def stage_references(self) -> tuple[Reference, ...]:
        """The user's functions with which the tiles of blocks are compared."""
        return self._functions(self.options.stages)

    def _functions(self, texts: tuple[str, ...]) -> tuple[Reference, ...]:
        script = Path(self.options.script) if self.options.script else None
        return tuple(read_reference(text, script, Path(self.options.cwd)) for text in texts)

    def script_runner(self) -> ScriptRunner:
        """Runs changed copies of the script in the folder of this step; to be used as a context manager."""
        options = self.options
        return ScriptRunner(
            self.dir / "candidates", Path(options.script), python=options.python or None, env=self.environment,
            arch=options.arch, cwd=Path(options.cwd),
            target=next((k.target for k in self.kernels.values() if k.target), None),
        )  # fmt: skip


def variables_set(changes: object) -> dict[str, str]:
    """Of the changes to the environment, name by name, those that set a variable."""
    return {str(k): str(v) for k, v in changes.items() if v is not None} if isinstance(changes, dict) else {}
