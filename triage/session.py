"""A case folded from its log: everything a session knows comes from the events of the case.

`replay` folds them; the driver appends to them and folds the same way. So a report drawn tomorrow, or after a kill, is the
report of the same facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from triage.case import Case, CaseError
from triage.experiment.kernels import Kernel
from triage.findings import find
from triage.graph import walker
from triage.graph.load import GraphError, loads
from triage.knowledge.files import rules_root
from triage.knowledge.judge import Observability
from triage.knowledge.load import read_all
from triage.knowledge.rule import Problem, RuleSet
from triage.knowledge.stages import Stages
from triage.knowledge.upstream import Issues, read_issues
from triage.model import Finding, Step, from_json
from triage.tools.base import Options, Result
from triage.tools.registry import SPECS


class CaseUnusable(Exception):
    """The case cannot be walked or drawn; the message says why."""


@dataclass
class Session:
    """A case folded from its events."""

    case: Case
    context: walker.Context
    options: Options = field(default_factory=Options)
    subject: dict[str, Any] = field(default_factory=dict)
    state: walker.State = field(default_factory=walker.State)
    effect: walker.Effect = field(default_factory=walker.Finish)
    results: list[Result] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)  # file -> blob
    #: the node whose step began and did not end
    running: str | None = None

    @cached_property
    def _read_rules(self) -> tuple[RuleSet, list[Problem]]:
        found, problems = read_all(rules_root())
        return RuleSet(tuple(found), rules_root()), problems

    @property
    def rules(self) -> RuleSet:
        """The rules that can be read: one broken file must not cost the user the report."""
        return self._read_rules[0]

    @cached_property
    def _read_issues(self) -> tuple[Issues, list[Problem]]:
        return read_issues(rules_root())

    @property
    def issues(self) -> Issues:
        """The faults that upstream knows, as far as they can be read."""
        return self._read_issues[0]

    @property
    def broken_rules(self) -> list[Problem]:
        return self._read_rules[1] + self._read_issues[1]

    @cached_property
    def stages(self) -> Stages:
        return Stages.load(rules_root() / "reference" / "stages.toml")

    @property
    def kernels(self) -> dict[str, Kernel]:
        wanted = self.options.kernel
        known = {k.id: k for result in self.results for k in result.kernels}
        return {i: k for i, k in known.items() if wanted is None or k.name == wanted}

    def gather(self, name: str) -> tuple[Any, ...]:
        """One field of all results, in the order of the steps."""
        return tuple(item for result in self.results for item in getattr(result, name))

    def facts(self) -> dict[str, dict[str, Any]]:
        """Values by what they are about and by name; the latest counts."""
        table: dict[str, dict[str, Any]] = {}
        for fact in self.gather("facts"):
            table.setdefault(fact.about, {})[fact.name] = fact.value
        return table

    def read_source(self, file: str) -> str | None:
        """The text of a user's file as it was when it ran; None if it was not kept."""
        blob = self.sources.get(file)
        try:
            return self.case.get(blob).decode("utf-8", "replace") if blob else None
        except CaseError:  # the blob is gone: the report then shows no source lines
            return None

    def findings(self) -> list[Finding]:
        """What the rules make of everything known now; without a verdict where nothing failed."""
        facts = self.facts()
        seen = Observability(
            tilelang=facts.get("run", {}).get("tilelang.version"),
            read_source=self.read_source,
            guess_of=self.stages.stage_of,
            issues=self.issues,
        )
        found = find(
            self.gather("errors"), self.gather("warnings"), self.gather("hazards"), self.gather("culprits"), facts,
            self.rules, seen, self.options.ignore, self.gather("bisected"),
        )  # fmt: skip
        repairs = {(r.rule, r.location): r.fixes for r in self.gather("repairs")}
        return [replace(f, fixes=(*repairs.get((f.rule or "", f.location), ()), *f.fixes)) for f in found]

    def apply(self, event: dict[str, Any]) -> None:
        """Fold one event of the log."""
        match event.get("type"):
            case "open":
                self.options = from_json(Options, event["options"])
                self.subject = event["subject"]
                self._go(walker.Begin(
                    self.subject["kind"], frozenset(event["capabilities"]), self.options.budget or 0.0, self.options.experiments
                ))  # fmt: skip
            case "resume":
                self.options = replace(self.options, budget=event["budget"], experiments=event["experiments"])
                self._go(walker.Resume(frozenset(event["capabilities"]), event["budget"], event["experiments"]))
            case "sources":
                self.sources |= event["files"]
            case "begin":
                self.running = event["node"]
            case "end":
                self.running = None
                self._end(event)

    def _end(self, event: dict[str, Any]) -> None:
        result = from_json(Result, event["result"])
        step = from_json(Step, event["step"])
        self.results.append(result)
        views = tuple(
            walker.FindingView(f.about, f.state, f.owner, f.category, f.rule)
            for f in self.findings()
            if f.level == "fault"
        )
        tool = self.context.graph.nodes[step.node].tool
        self._go(walker.Done(step, result.facts, views, counts=tool != "observe-run"))

    def _go(self, event: walker.Event) -> None:
        self.state, self.effect = walker.step(self.context, self.state, event)


def replay(case: Case, before: int | None = None) -> Session:
    """Fold the log of a case, up to where step number `before` was to run, else the whole.

    Raises `CaseUnusable` for a case that has no beginning or has lost its blobs.
    """
    try:
        return _replay(case, before)
    except (CaseError, OSError, GraphError) as error:
        raise CaseUnusable(f"{case.path} cannot be used: {error}") from None


def _replay(case: Case, before: int | None) -> Session:
    events = list(case.events())
    if not events or events[0].get("type") != "open":
        raise CaseUnusable(f"{case.path}: its log does not begin with an `open` event")
    graph = loads(case.get(events[0]["graph"]).decode("utf-8"))
    session = Session(case, walker.Context(graph, SPECS, f"triage resume {case.path}"))
    for event in events:
        if before is not None and isinstance(session.effect, walker.Run) and session.effect.number == before:
            break
        try:
            session.apply(event)
        except (KeyError, TypeError, ValueError) as error:
            raise CaseUnusable(f"{case.path}: event {event.get('type')!r} cannot be read: {error}") from None
    return session
