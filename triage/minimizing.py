"""`triage minimize`: one capability by itself. Prepares what the search needs, and writes what it finds."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage.case import experiments_folder
from triage.experiment.gpu_scripts import GpuRunner, virtual_is_enough
from triage.experiment.minimize_script import Minimized, minimize_script, page
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.knowledge.files import rules_root
from triage.knowledge.load import load_rules
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import Stages
from triage.model import to_json
from triage.tools.capabilities import has_gpu


@dataclass(frozen=True)
class Request:
    """What to minimize, where to write it, and how long to search, in seconds."""

    script: Path
    output: Path
    argv: tuple[str, ...] = ()
    call: str | None = None
    python: str | None = None
    arch: str | None = None
    compile: bool = True
    budget: float = 600.0
    #: who proposes smaller texts: triage or autodd
    reducer: str = "triage"
    #: changed copies at once; None: as many as the machine has cores
    jobs: int | None = None


def minimize(request: Request, progress: Callable[[str], None]) -> Minimized:
    """Write the smallest script found to `request.output`, which holds the best so far at any time.

    Raises `NothingToMinimizeError`, `NotInstalledError`, `TemplateError`, and `OSError` where the output cannot be written.
    """
    source = request.script.read_text(encoding="utf-8")
    question = [source, request.argv, request.call, request.arch, request.compile, str(request.script.absolute())]
    directory = experiments_folder(Path.cwd(), "minimize", question)
    options: dict[str, Any] = {
        "python": request.python, "arch": request.arch, "compile": request.compile, "outputs": (request.output,),
        "jobs": request.jobs,
    }  # fmt: skip
    asked = Candidate(source, request.argv, request.call)
    with contextlib.ExitStack() as running:
        reading = running.enter_context(ThreadPoolExecutor(1)).submit(_knowledge)  # while the template imports tilelang
        runner = running.enter_context(ScriptRunner(directory, request.script, **options))
        rules, stages = reading.result()
        if has_gpu():
            progress("running the script on the GPU")
            real = running.enter_context(GpuRunner(directory, request.script, **options))
            runner = runner if virtual_is_enough(real, runner, asked, rules, stages) else real
        result = minimize_script(
            runner, source, argv=request.argv, call=request.call, rules=rules, stages=stages,
            budget=request.budget, reducer=request.reducer, keep=lambda text: _write(request.output, text), progress=progress,
        )  # fmt: skip
        _write(request.output, page(result, request.script, runner))
    if result.input is not None:
        _write(directory / "input.json", json.dumps(to_json(result.input), indent=1))
    return result


def _knowledge() -> tuple[RuleSet, Stages]:
    return load_rules(), Stages.load(rules_root() / "reference" / "stages.toml")


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a kill in between must leave the best so far."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
