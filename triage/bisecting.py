"""`triage bisect`: one capability by itself. Runs the script once, and bisects the switches of every kernel that fails."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage.case import experiments_folder
from triage.experiment.bisect import Bisection, bisect
from triage.experiment.errors import Observed, errors_of
from triage.experiment.kernels import Kernel, kernels_of
from triage.experiment.oracle import decisive as told_line
from triage.experiment.process import DEFAULT_ARCH, Subject, run_subject
from triage.experiment.template import Program, Template
from triage.knowledge.files import rules_root
from triage.knowledge.switches import load_switches
from triage.model import ErrorRecord
from triage.readers import decisive
from triage.tools import capabilities
from triage.tools.base import variables_set
from triage.tools.lower_kernels import reported_fault
from triage.tools.observe import environment_changes

#: how long the script may take, in seconds
RUN_LIMIT = 300.0
#: characters of an error that its title shows
SHOWN = 120


class NothingToBisectError(Exception):
    """The script has no kernel that fails while it is compiled; the message says what it does instead."""


@dataclass(frozen=True)
class Request:
    """Which script and kernel to bisect, and how long to search, in seconds."""

    script: Path
    argv: tuple[str, ...] = ()
    call: str | None = None
    python: str | None = None
    arch: str | None = None
    kernel: str | None = None
    budget: float = 300.0


@dataclass(frozen=True)
class Answer:
    """What was found for one kernel, and the error that its compile raised in the run, if it was compiled there."""

    kernel: Kernel
    error: ErrorRecord | None
    found: Bisection

    @property
    def title(self) -> str:
        """The kernel, where it is defined, and how it fails."""
        at = self.kernel.defined_at
        place = f" ({Path(at.file).name}:{at.line})" if at else ""
        one = decisive(self.error) if self.error else None
        said = f": {one.type}: {told_line(one.message)[:SHOWN]}" if one else ""
        return f"kernel {self.kernel.name}{place}{said}"

    @property
    def how(self) -> str:
        """What came of the search, and what it cost."""
        found = self.found
        cut = "" if found.complete else "; not everything was tried"
        owner = "; the compiler is at fault, not the kernel" if found.compiler else ""
        return f"{found.how}{owner} ({found.tries} experiments in {found.seconds:.0f} s{cut})"


def bisect_script(request: Request, progress: Callable[[str], None]) -> list[Answer]:
    """Bisect the kernels of a script, in the order of their compiles, until the budget is spent.

    Raises `NothingToBisectError`, `TemplateError`, `SwitchTableError`, and `OSError` where nothing can be written.
    """
    switches = load_switches(rules_root() / "reference" / "switches.toml")
    question = [str(request.script.absolute()), request.argv, request.call, request.arch, request.python]
    directory = experiments_folder(Path.cwd(), "bisect", question)
    able = capabilities.quick(request.python or "")
    progress("running the script")
    kernels, errors, env = _observe(request, directory, virtual="cuda" not in able)
    failing = _failing(kernels, errors, request.kernel)
    deadline = time.monotonic() + request.budget
    answers = []
    with Template(
        directory / "experiments",
        python=request.python,
        env=env,
        script=request.script,
        target=failing[0].target or None,
    ) as template:
        for kernel in failing:
            error = reported_fault(errors, kernel)
            found = bisect(
                Program(directory / "blobs" / str(kernel.primfunc), kernel.target or None, kernel.pass_configs),
                template,
                switches,
                deadline=deadline,
                fault=error,
                device="nvcc" in able and kernel.target.get("kind") == "cuda",
                progress=progress,
            )
            answers.append(Answer(kernel, error, found))
    return answers


def _observe(
    request: Request, directory: Path, virtual: bool
) -> tuple[list[Kernel], list[ErrorRecord], Mapping[str, str]]:
    """The kernels of the script, its errors, and the variables that it set before its imports."""
    subject = Subject(
        script=request.script,
        argv=request.argv,
        cwd=Path.cwd(),
        mode="virtual" if virtual else "real",
        arch=request.arch or DEFAULT_ARCH,
        arch_source="argument" if request.arch else "default",
        call=request.call,
    )
    step = Path(tempfile.mkdtemp(prefix="run-", dir=directory))
    blobs = directory / "blobs"
    run = run_subject(subject, step, blobs, python=request.python, timeout=RUN_LIMIT)
    kernels = list(kernels_of(run.events).values())
    observed = Observed(
        step, run.events, kernels, lambda sha: (blobs / sha).read_bytes(), str(request.script), RUN_LIMIT,
        request.python or "",
    )  # fmt: skip
    errors = errors_of(observed, observed.readings())
    shutil.rmtree(step, ignore_errors=True)
    return kernels, errors, variables_set(environment_changes(run.events))


def _failing(kernels: Sequence[Kernel], errors: Sequence[ErrorRecord], name: str | None) -> list[Kernel]:
    """Those that failed, or that nothing compiled yet; the same program under the same options once."""
    named = [k for k in kernels if name in (None, k.name)]
    if name is not None and not named:
        known = ", ".join(dict.fromkeys(k.name for k in kernels)) or "none"
        raise NothingToBisectError(f"there is no kernel {name!r}; the script built: {known}")
    suspects = [k for k in named if k.primfunc and (k.failed or "lower" not in k.phases)]
    distinct: dict[Any, Kernel] = {}
    for kernel in suspects:
        distinct.setdefault(json.dumps([kernel.primfunc, kernel.target, kernel.pass_configs], sort_keys=True), kernel)
    if distinct:
        return list(distinct.values())
    last = next((e for e in reversed(errors) if not (e.recovered or e.stubbed)), None)
    if last is not None and not any(k.failed for k in named):
        said = last.message.strip().splitlines()
        what = f"{last.type}: {said[0]}" if said else last.type
        raise NothingToBisectError(f"no kernel fails while it is compiled; the script ends with {what}")
    raise NothingToBisectError("every kernel compiles" if named else "the script builds no kernel")
