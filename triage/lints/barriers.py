"""Barriers of the whole block inside a branch that only some threads take."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Certainty, Hazard, label
from triage.lints.program import Program, Visit
from triage.model import Statement

#: `T.sync_threads()` as the printed program shows it, with whatever arguments follow the scope
BARRIER = re.compile(r"""\btvm_storage_sync\(\s*["']shared(?:\.dyn)?["']\s*(?P<more>,[^)]*)?\)""")
#: a thread index against a number, the one form whose outcome is plain
COMPARISON = re.compile(r"\(?\s*(?P<name>[A-Za-z_]\w*)\s*(?P<op><=?|>=?|==|!=)\s*(?P<number>\d+)\s*\)?")
COMPARE = {
    "<": lambda thread, number: thread < number,
    "<=": lambda thread, number: thread <= number,
    ">": lambda thread, number: thread > number,
    ">=": lambda thread, number: thread >= number,
    "==": lambda thread, number: thread == number,
    "!=": lambda thread, number: thread != number,
}


def divergent(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.sync_threads()` under a condition on the thread index: undefined behaviour, often a hang.

    A barrier with an id or a thread count (`T.sync_threads(1, 64)`) says who takes part and is legal. Where the other
    branch waits as well every thread reaches a barrier, which works in practice, so nothing is said about it.
    """
    for visit in program.visits:
        if not _waits_for_all(visit.statement):
            continue
        branch = _branch(visit)
        if branch is None or any(_contains_barrier(child) for child in _other_side(branch, visit)):
            continue
        split = _splits_the_block(branch.condition or "", program)
        if split is False:
            continue
        fields = {"condition": branch.condition or "", "threads": list(program.kernel.launch.threads)}
        why = label(branch.at, f"only threads with {branch.condition} come here")
        certainty: Certainty = "certain" if split else "likely"
        yield Hazard("divergent-barrier", program.kernel.name, visit.at, labels=why, fields=fields, certainty=certainty)


def _waits_for_all(statement: Statement) -> bool:
    found = BARRIER.search(statement.text) if statement.kind in ("call", "op") else None
    return found is not None and not found["more"]


def _branch(visit: Visit) -> Statement | None:
    """The nearest enclosing branch that depends on the thread."""
    return next((p for p in reversed(visit.parents) if p.kind == "if" and p.divergent is True), None)


def _other_side(branch: Statement, visit: Visit) -> tuple[Statement, ...]:
    inside = (visit.statement, *visit.parents)
    return branch.orelse if any(child in inside for child in branch.body) else branch.body


def _contains_barrier(statement: Statement) -> bool:
    return _waits_for_all(statement) or any(_contains_barrier(s) for s in (*statement.body, *statement.orelse))


def _splits_the_block(condition: str, program: Program) -> bool | None:
    """Whether some threads of a one-dimensional block take the branch and others do not; None if that is not plain."""
    dims = [n for n in program.kernel.launch.threads if isinstance(n, int)]
    found = COMPARISON.fullmatch(condition.strip())
    if found is None or len(dims) != len(program.kernel.launch.threads) or math.prod(dims) != max(dims, default=0):
        return None
    taken = [COMPARE[found["op"]](thread, int(found["number"])) for thread in range(math.prod(dims))]
    return any(taken) and not all(taken)
