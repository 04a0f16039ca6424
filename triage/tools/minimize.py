"""minimize: make the failing script small while it shows the same fault, for a reader and for an issue."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from triage.experiment.client import TemplateError
from triage.experiment.minimize_script import NothingToMinimizeError, minimize_script, page
from triage.graph.spec import ToolSpec
from triage.model import Artifact, Fact, StepOutcome, StepStatus
from triage.report.words import MINIMIZED
from triage.tools.base import Result, Work

SPEC = ToolSpec(
    "minimize",
    "shrink the script while the fault stays",
    adds=("minimized.lines", "minimized.lines_before", "minimized.runs"),
    seconds=lambda facts: 15.0,
)

#: The step after this one wants some of the budget, too: seconds that this one takes at most.
LONGEST = 60.0


def _checks_alone(work: Work) -> bool:
    """Whether the script ended by a check of its results that rests on no comparison which is known."""
    last = next((error for error in reversed(work.errors) if not error.handled), None)
    return work.facts.get("run.check") == "failed" and last is not None and last.comparison is None


def run(work: Work) -> Result:
    """Minimize the script of the run, without a GPU."""
    options = work.options
    if not options.script:
        return Result(detail="a script can be minimized, and this run is of a module")
    source = work.script_source
    if source is None:
        return Result(detail="the script cannot be read as it ran")
    if _checks_alone(work):
        return Result(
            detail="which values the script's own check looked at is not known: a smaller script could fail for another reason"
        )
    small = work.dir / "minimized.py"
    try:
        with work.script_runner() as runner:
            found = minimize_script(
                runner, source, argv=options.argv, call=options.call, rules=work.rules, stages=work.stages,
                budget=min(LONGEST, work.seconds), progress=work.progress,
            )  # fmt: skip
            text = page(found, Path(options.script), runner)
    except NothingToMinimizeError as error:
        return Result(detail=f"nothing was minimized: {error}")
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"changed copies cannot be run: {error}")
    small.write_text(text, encoding="utf-8")
    values = {
        "minimized.lines": found.lines,
        "minimized.lines_before": found.lines_before,
        "minimized.runs": found.runs,
    }
    digest = hashlib.sha256(small.read_bytes()).hexdigest()
    name = os.fspath(small.relative_to(work.case.path))
    ended = "" if found.finished else "; the time ran out, it may get smaller"
    return Result(
        outcome=StepOutcome.FINDING,
        detail=f"{name}: {found.lines_before} → {found.lines} lines with the same fault ({found.runs} runs){ended}",
        facts=tuple(Fact(fact, value, work.about, source=SPEC.name) for fact, value in values.items()),
        artifacts=(Artifact(name, MINIMIZED, digest),),
    )
