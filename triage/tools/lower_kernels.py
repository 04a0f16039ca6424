"""lower-kernels: compile only, all kernels: lower every captured kernel that the run did not lower itself.

A kernel that the script compiled needs no second lowering; one that it only defines (a PrimFunc nobody compiled) is
lowered here in a forked worker, so a file of kernel definitions is checked as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.experiment.choose import Unit
from triage.experiment.client import TemplateError
from triage.experiment.kernels import Kernel
from triage.experiment.template import Program
from triage.experiment.template import Result as Outcome
from triage.graph.spec import ToolSpec
from triage.model import ErrorRecord, Fact, NotChecked, StepOutcome, StepStatus
from triage.tools.base import Result, Work
from triage.tools.error_facts import ADDS, error_facts

SPEC = ToolSpec(
    "lower-kernels",
    "compile only: lower every captured kernel",
    adds=("kernels.failing", "kernel.failed", *ADDS),
    seconds=lambda facts: 0.5,
)


def run(work: Work) -> Result:
    """Lower what was not lowered; count what does not lower."""
    todo = [k for k in work.kernels.values() if "lower" not in k.phases and k.primfunc]
    failing = sum(k.failed for k in work.kernels.values())
    if not todo:
        return Result(
            outcome=StepOutcome.FINDING if failing else StepOutcome.CLEAN,
            detail=f"the run itself lowered all kernels; {failing} failed",
            facts=(Fact("kernels.failing", failing, source="lower-kernels"),),
        )
    errors: list[ErrorRecord] = []
    facts: list[Fact] = []
    kernels: list[Kernel] = []
    try:
        template = work.template()
        for kernel in todo:
            work.progress(f"lowering {kernel.name}")
            outcome = template.run(program(work, kernel), "lower")
            ok = {"succeeded": True, "failed": False}.get(outcome.status, outcome.why or outcome.status)
            kernels.append(replace(kernel, phases={**kernel.phases, "lower": ok}))
            facts.append(Fact("kernel.failed", ok is False, f"kernel:{kernel.id}", source="lower-kernels"))
            if outcome.error is not None:
                errors.append(replace(outcome.error, kernel=kernel.id, latent=True))
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the lowering process does not work: {error}")
    failing += sum(k.failed for k in kernels)
    facts.append(Fact("kernels.failing", failing, source="lower-kernels"))
    if errors and "error.text" not in work.facts:
        facts += error_facts(errors[-1], work.stages, SPEC.name)
    return Result(
        outcome=StepOutcome.FINDING if failing else StepOutcome.CLEAN,
        detail=f"{len(todo)} lowered here; {failing} failed",
        facts=tuple(facts),
        errors=tuple(errors),
        kernels=tuple(kernels),
        checked=(_lowered(kernels),) if any(not k.failed for k in kernels) else (),
        not_checked=tuple(
            NotChecked(f"lowering of kernel {k.name}", str(k.phases["lower"]))
            for k in kernels
            if not isinstance(k.phases["lower"], bool)
        ),
    )


def _lowered(kernels: list[Kernel]) -> str:
    count = sum(k.phases["lower"] is True for k in kernels)
    return f"{count} kernel{'s' * (count != 1)} that the script only defines: lowered [measured here]"


def program(work: Work, kernel: Kernel) -> Program:
    """A captured kernel as the subject of experiments, for the target it was compiled for."""
    assert kernel.primfunc is not None
    return Program(work.case.blobs / kernel.primfunc, kernel.target or None, kernel.pass_configs)


def units_of(work: Work, kernel: Kernel) -> tuple[Unit, ...]:
    """What a captured kernel consists of; none where that could not be listed. Raises `TemplateError`."""
    listed = work.template().run(program(work, kernel), "units")
    return tuple(Unit.of(data) for data in listed.facts["units"]) if listed.status == "succeeded" else ()


def reported_fault(errors: Sequence[ErrorRecord], kernel: Kernel) -> ErrorRecord | None:
    """The error that a kernel's compile was seen to raise, in the run if there, without its pass: the tables name passes
    otherwise than the compiler does, and the raising frame says more."""
    mine = [e for e in errors if e.kernel == kernel.id]
    seen = next((e for e in reversed(mine) if not e.latent), mine[-1] if mine else None)
    return replace(seen, pass_name=None) if seen else None


def failing_operation(kernel: Kernel) -> str:
    """How far an experiment must take this kernel to see its failure: lower, codegen or device."""
    return next((phase for phase in ("lower", "codegen", "device") if kernel.phases.get(phase) is False), "lower")


def describe(outcome: Outcome) -> str:
    """An experiment's outcome in a few words."""
    if outcome.error is not None:
        where = f" in {outcome.pass_name}" if outcome.pass_name else ""
        return f"{outcome.error.type}{where}: {outcome.error.message.splitlines()[0] if outcome.error.message else ''}"
    return outcome.why or outcome.status
