"""The facts that edges read of an error, the same for every tool that sees one."""

from __future__ import annotations

from triage.knowledge.stages import Stages
from triage.model import ErrorRecord, Fact
from triage.readers import decisive

#: Stages that the phase of an event alone tells, where the tables know nothing.
STAGE_OF_PHASE = {
    "call": "call",
    "launch": "launch",
    "load": "runtime",
    "device": "device-compile",
    "codegen": "codegen",
}
ADDS = ("error.text", "error.type", "error.stage", "error.phase", "error.pass")
#: Characters of a message that are kept as a fact; the whole is in the record.
TEXT_LIMIT = 2000


def error_facts(error: ErrorRecord, stages: Stages, source: str) -> list[Fact]:
    """Text and type of the record that decides, its stage and pass by the tables."""
    one = decisive(error)
    guess = stages.stage_of(one)
    phase = one.phase or error.phase
    values = {
        "error.text": one.message[:TEXT_LIMIT] or one.type,
        "error.type": one.type,
        "error.stage": guess.stage or STAGE_OF_PHASE.get(phase or ""),
        "error.phase": phase,
        "error.pass": one.pass_name or guess.pass_name,
    }
    return [Fact(name, value, source=source) for name, value in values.items() if value is not None]
