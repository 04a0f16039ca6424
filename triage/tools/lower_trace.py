"""lower-trace: lower a failing kernel again and keep what it looked like before the pass that fails."""

from __future__ import annotations

import hashlib

from triage.experiment.client import TemplateError
from triage.graph.spec import ToolSpec
from triage.model import Artifact, Fact, StepOutcome, StepStatus
from triage.tools.base import Result, Work
from triage.tools.lower_kernels import describe, failing_operation, program

SPEC = ToolSpec(
    "lower-trace",
    "trace the lowering to the failing pass",
    adds=("kernel.pass",),
    seconds=lambda facts: 5.0,
)


def run(work: Work) -> Result:
    """Name the failing pass, and keep the IR before it."""
    kernel = work.kernel
    if kernel.primfunc is None:
        return Result(status=StepStatus.FAILED, detail=f"kernel {kernel.name} was not captured as IR")
    try:
        outcome = work.template().trace(program(work, kernel), failing_operation(kernel))
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the lowering process does not work: {error}")
    if outcome.status == "succeeded":
        return Result(outcome=StepOutcome.CLEAN, detail=f"{kernel.name} lowers here: its failure needs the script")
    facts = [Fact("kernel.pass", outcome.pass_name, work.about, source="lower-trace")] if outcome.pass_name else []
    names = {"before.tir": f"IR before {outcome.pass_name}", "passes.txt": "passes in their order"}
    kept = [(outcome.directory / name, kind) for name, kind in names.items()] if outcome.directory else []
    artifacts = [
        Artifact(str(path.relative_to(work.case.path)), kind, hashlib.sha256(path.read_bytes()).hexdigest())
        for path, kind in kept
        if path.is_file()
    ]
    return Result(
        outcome=StepOutcome.FINDING if outcome.error else StepOutcome.UNKNOWN,
        detail=describe(outcome),
        facts=tuple(facts),
        artifacts=tuple(artifacts),
    )
