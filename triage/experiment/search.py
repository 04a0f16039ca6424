"""The experiments on one kernel: they share the fault they started from, a log, and a deadline."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

from triage.experiment import oracle
from triage.experiment.choose import Unit
from triage.experiment.minimal import OutOfBudget
from triage.experiment.oracle import Outcome, Verdict
from triage.experiment.template import RUN_LIMIT, Change, Program, Result, Template
from triage.model import ErrorRecord, FaultKey


@dataclass(frozen=True)
class Experiment:
    """One line of the log: what was changed, what came of it, and how long it took in seconds."""

    changes: tuple[str, ...]
    verdict: str
    differs: tuple[str, ...] = ()
    seconds: float = 0.0


class Search:
    """Asks the template what a changed program shows. `begin` first."""

    def __init__(self, program: Program, template: Template, deadline: float) -> None:
        self.program, self.template, self.deadline = program, template, deadline
        self.op = "codegen"
        self.key = FaultKey("exception")
        self.units: tuple[Unit, ...] = ()
        self.log: list[Experiment] = []
        self.error: ErrorRecord | None = None
        #: what the unchanged program showed
        self.first: Result | None = None
        self.passes = 0

    def begin(self, fault: ErrorRecord | None) -> str | None:
        """Run the unchanged program twice and list its units; returns why there is nothing to search, or None."""
        if fault is not None and fault.phase == "device":
            self.op = "device"
        first = self.template.again(self.program, self.op)
        self.first = first
        if first.status == "succeeded":
            return "the kernel lowers when it is tried again"
        if first.status != "failed" or first.error is None:
            return f"the kernel could not be lowered again: {first.why or first.status}"
        self.key = oracle.fault_key(first.error, first.pass_name)
        if fault is not None:
            differs = oracle.differing(_as_seen(self.key, fault), oracle.fault_key(fault))
            if differs:
                return f"lowered again, the kernel shows another error ({', '.join(differs)} differ)"
        self.error = first.error
        self.passes = int(first.facts.get("passes", 0))
        if first.error.phase == "lower":
            self.op = "lower"
        second = self.template.again(self.program, self.op)
        outcome = oracle.judge(self.key, second.status, second.error, second.pass_name)
        if outcome.verdict != Verdict.SAME:
            return f"two lowerings of the unchanged kernel differ: {outcome.verdict}"
        listed = self.template.run(self.program, "units")
        if listed.status != "succeeded":
            return f"the kernel's statements could not be listed: {listed.why or listed.status}"
        self.units = tuple(Unit.of(data) for data in listed.facts["units"])
        return None

    def ask(self, changes: Sequence[Change]) -> Verdict:
        """Run the program with changes. Raises `OutOfBudget` after the deadline.

        Another fault from an earlier pass than the start's hides what is asked, and is `unknown`.
        """
        outcome, result = self.show(self.program, self.op, changes)
        names = tuple(c.unit if c.value is None else f"{c.unit}={c.value}" for c in changes)
        self.note(names, outcome, result)
        return outcome.verdict

    def show(self, program: Program, op: str, changes: Sequence[Change]) -> tuple[Outcome, Result]:
        """What a program shows as far as `op`, and how that compares with the start. Raises `OutOfBudget`."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfBudget
        result = self.template.run(program, op, tuple(changes), min(left + 1.0, RUN_LIMIT))
        return self.judged(result), result

    def note(self, names: tuple[str, ...], outcome: Outcome, result: Result) -> None:
        """Write an experiment into the log."""
        self.log.append(Experiment(names, str(outcome.verdict), outcome.differs, result.seconds))

    def judged(self, result: Result) -> Outcome:
        outcome = oracle.judge(self.key, result.status, result.error, result.pass_name)
        if outcome.verdict == Verdict.OTHER and int(result.facts.get("passes", 0)) < self.passes:
            return Outcome(Verdict.UNKNOWN, outcome.differs, "failed in an earlier pass")
        return outcome

    def of_kind(self, *kinds: str) -> list[Unit]:
        return [unit for unit in self.units if unit.kind in kinds]


def _as_seen(key: FaultKey, fault: ErrorRecord) -> FaultKey:
    """The key without the parts that the report of the fault does not have: a text has no frames and no pass."""
    return dataclasses.replace(
        key, pass_name=key.pass_name if fault.pass_name else "", raiser=key.raiser if fault.frames else ""
    )
