"""Barriers of the whole block inside a branch that only some threads take."""

from __future__ import annotations

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
#: no device takes larger blocks; what a larger one would do need not be worked out
LARGEST_BLOCK = 1024
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
    branch waits as well every thread reaches a barrier, which works in practice, so nothing is said about it; two
    branches of two conditions may complement each other, so neither is certain.
    """
    waiting = [(visit, branch) for visit in program.visits if (branch := _branch(visit)) and _alone(visit, branch)]
    for visit, branch in waiting:
        split = _splits_the_block(branch.condition or "", program)
        if split is False:
            continue
        fields = {"condition": branch.condition or "", "threads": list(program.kernel.launch.threads)}
        why = label(branch.at, f"only threads with {branch.condition} come here")
        certainty: Certainty = "certain" if split and all(other is branch for _, other in waiting) else "likely"
        yield Hazard("divergent-barrier", program.kernel.name, visit.at, labels=why, fields=fields, certainty=certainty)


def _waits_for_all(statement: Statement) -> bool:
    found = BARRIER.search(statement.text) if statement.kind in ("call", "op") else None
    return found is not None and not found["more"]


def _branch(visit: Visit) -> Statement | None:
    """For a barrier of the whole block, the nearest enclosing branch that depends on the thread."""
    if not _waits_for_all(visit.statement):
        return None
    return next((p for p in reversed(visit.parents) if p.kind == "if" and p.divergent is True), None)


def _alone(visit: Visit, branch: Statement) -> bool:
    """Whether the threads that take the other side of the branch meet no barrier there."""
    inside = {id(statement) for statement in (visit.statement, *visit.parents)}
    here = any(id(child) in inside for child in branch.body)
    return not any(_contains_barrier(child) for child in (branch.orelse if here else branch.body))


def _contains_barrier(statement: Statement) -> bool:
    return _waits_for_all(statement) or any(_contains_barrier(s) for s in (*statement.body, *statement.orelse))


def _splits_the_block(condition: str, program: Program) -> bool | None:
    """Whether some threads of a one-dimensional block take the branch and others do not; None if that is not plain."""
    found = COMPARISON.fullmatch(condition.strip())
    threads = program.threads
    if (
        found is None
        or threads is None
        or threads > LARGEST_BLOCK
        or any(max(dims) != threads for dims in program.blocks)
    ):
        return None
    taken = [COMPARE[found["op"]](thread, int(found["number"])) for thread in range(threads)]
    return any(taken) and not all(taken)
