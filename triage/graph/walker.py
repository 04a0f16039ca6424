"""The walker: `step(context, state, event) -> (state, effect)`, a pure function.

A *token* stands on a node and is about something: the run, a kernel or a comparison. A step takes the first waiting
token and either

* ends it (the node is an end, or this token was here as often as `visits` allows),
* *skips* the node (a capability is missing, the tool is not built, the budget is too small), or
* asks the driver to run the node's tool: the one effect. The driver answers with `Done`.

After a node was run or skipped the token moves on: along the first branch whose conditions all hold, else along
`then`. The reason it moved is kept with the observed values. A token about the run that enters a `per = "kernel"` node
splits into one token per suspect; a token about a kernel that enters a node about the run becomes a token about the run.

Every cycle ends by construction: each `(node, about)` is visited at most `visits` times, there are finitely many
nodes and suspects, and each step either consumes a visit or a token. Nothing here reads a clock, a file or a random
number, so replaying the events of a case gives the same walk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from triage.conditions import all_hold
from triage.graph.load import Graph, Node
from triage.graph.spec import ToolSpec
from triage.model import Fact, Step, StepOutcome, StepStatus

#: More suspects than this are not walked one by one; the report names the rest.
MOST_SUSPECTS = 8


@dataclass(frozen=True)
class Context:
    """What a walk stands on and never changes."""

    graph: Graph
    tools: Mapping[str, ToolSpec]
    #: the command that goes on with the case, for `Step.command`
    command: str = "triage resume"


@dataclass(frozen=True)
class Token:
    node: str
    about: str = "run"
    why: str = "start"


@dataclass(frozen=True)
class FindingView:
    """What an edge may read of a finding."""

    about: str
    state: str
    owner: str
    category: str | None
    rule: str | None = None


@dataclass(frozen=True)
class State:
    """The whole walk so far. `running` is the token whose tool the driver is executing."""

    capabilities: frozenset[str] = frozenset()
    budget: float = 0.0  # seconds left
    experiments: bool = True
    queue: tuple[Token, ...] = ()
    running: Token | None = None
    facts: tuple[Fact, ...] = ()
    findings: tuple[FindingView, ...] = ()
    visits: Mapping[tuple[str, str], int] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    #: suspects beyond MOST_SUSPECTS
    left_out: tuple[str, ...] = ()
    finished: bool = False


@dataclass(frozen=True)
class Begin:
    """Start a walk at the node for this kind of subject."""

    kind: str
    capabilities: frozenset[str]
    budget: float
    experiments: bool = True


@dataclass(frozen=True)
class Done:
    """The driver ran the step; `findings` are all findings of the case by now, not only the new ones."""

    step: Step
    facts: tuple[Fact, ...] = ()
    findings: tuple[FindingView, ...] = ()
    #: False for the observing run: its time is the script's own, not triage's
    counts: bool = True


@dataclass(frozen=True)
class Resume:
    """Queue again what was skipped for a need that is met now, or for a budget that is larger now."""

    capabilities: frozenset[str]
    budget: float
    experiments: bool = True


Event = Begin | Done | Resume


@dataclass(frozen=True)
class Run:
    """The effect: execute this node's tool."""

    node: str
    tool: str
    about: str
    why: str
    number: int


@dataclass(frozen=True)
class Finish:
    """The effect: nothing is left to walk."""


Effect = Run | Finish


def step(context: Context, state: State, event: Event) -> tuple[State, Effect]:
    """Apply an event and walk on to the next effect."""
    match event:
        case Begin():
            start = context.graph.start.get(event.kind)
            queue = (Token(start),) if start else ()
            state = State(event.capabilities, event.budget, event.experiments, queue)
        case Resume():
            state = _requeue(state, event)
        case Done():
            state = _record(context, state, event)
    return _advance(context, state)


def view(state: State, about: str) -> dict[str, Any]:
    """The facts an edge sees from `about`: those of the run, overlaid by those about the same thing, the latest last.

    `finding.*` describe the best finding that concerns it, `step.*` the last step on the way, `machine.*` the
    capabilities.
    """
    seen: dict[str, Any] = {f"machine.{name}": True for name in state.capabilities}
    for scope in dict.fromkeys(("run", about)):
        seen |= {fact.name: fact.value for fact in state.facts if fact.about == scope}
    relevant = [f for f in state.findings if f.about in ("run", about) or about == "run"]
    if relevant:
        best = min(relevant, key=lambda f: ("localized", "classified", "unknown", "healthy").index(f.state))
        seen |= {"finding.state": best.state, "finding.owner": best.owner, "finding.rule": best.rule}
        seen["finding.category"] = best.category
    mine = [s for s in state.steps if s.about in ("run", about)]
    if mine:
        seen |= {"step.status": str(mine[-1].status), "step.outcome": str(mine[-1].outcome)}
    return seen


# --------------------------------------------------------------------------------------------------------


def _advance(context: Context, state: State) -> tuple[State, Effect]:
    while state.queue:
        token, rest = state.queue[0], state.queue[1:]
        node = context.graph.nodes[token.node]
        state = replace(state, queue=rest)
        if node.end or _exhausted(state, node, token):
            continue
        if node.per != token.about.partition(":")[0]:
            state = _rescope(context, state, node, token)
            continue
        spec = context.tools[node.tool]
        state = _count_visit(state, token)
        reason = _reason_to_skip(state, node, spec, token)
        if reason is None:
            state = replace(state, running=token)
            return state, Run(node.name, node.tool, token.about, token.why, len(state.steps) + 1)
        skipped = Step(
            node=node.name, tool=node.tool, about=token.about, status=StepStatus.SKIPPED,
            outcome=StepOutcome.UNKNOWN, why=token.why, detail=reason, number=len(state.steps) + 1,
            command=context.command, elsewhere=spec.elsewhere,
        )  # fmt: skip
        state = _leave(context, replace(state, steps=(*state.steps, skipped)), token)
    return replace(state, finished=True), Finish()


def _record(context: Context, state: State, event: Done) -> State:
    token = state.running
    if token is None:
        raise ValueError("a step was reported done, but none was running")
    spent = event.step.seconds if event.counts else 0.0
    done = replace(
        event.step, node=token.node, tool=context.graph.nodes[token.node].tool, about=token.about, why=token.why,
        number=len(state.steps) + 1, command=f"{context.command} --step {len(state.steps) + 1}",
    )  # fmt: skip
    state = replace(
        state,
        running=None,
        budget=max(0.0, state.budget - spent),
        facts=(*state.facts, *(replace(fact, step=done.number) for fact in event.facts)),
        findings=event.findings,
        steps=(*state.steps, done),
    )
    return _leave(context, state, token)


def _leave(context: Context, state: State, token: Token) -> State:
    """Move a token on from the node where it was run or skipped. It goes first, so that a chain is walked in depth."""
    node = context.graph.nodes[token.node]
    facts = view(state, token.about)
    for branch in node.branches:
        answer = all_hold(branch.conditions, facts)
        if answer.holds:
            return replace(state, queue=(Token(branch.to, token.about, answer.why), *state.queue))
    why = f"after {token.node}" if not node.branches else f"after {token.node}: none of its conditions held"
    return replace(state, queue=(Token(node.then, token.about, why), *state.queue))


def _rescope(context: Context, state: State, node: Node, token: Token) -> State:
    """Split a token over the suspects, or join it back to the run."""
    if node.per == "run":
        return replace(state, queue=(replace(token, about="run"), *state.queue))
    suspects = _suspects(state, node.per)
    if not suspects:
        state = _count_visit(state, token)
        skipped = Step(
            node=node.name, tool=node.tool, about=token.about, status=StepStatus.SKIPPED, why=token.why,
            detail=f"no {node.per} to look at", number=len(state.steps) + 1,
        )  # fmt: skip
        return _leave(context, replace(state, steps=(*state.steps, skipped)), token)
    chosen, rest = suspects[:MOST_SUSPECTS], suspects[MOST_SUSPECTS:]
    left_out = tuple(dict.fromkeys((*state.left_out, *rest)))
    tokens = tuple(replace(token, about=about) for about in chosen)
    return replace(state, queue=(*tokens, *state.queue), left_out=left_out)


def _suspects(state: State, per: str) -> list[str]:
    """All things of this kind, or only the worst of them: those that failed, else those that mismatched."""
    ranks: dict[str, int] = {}
    for fact in state.facts:
        if fact.about.startswith(per + ":"):
            rank = {("kernel.failed", True): 0, ("comparison.verdict", "mismatched"): 1}.get((fact.name, fact.value), 2)
            ranks[fact.about] = min(rank, ranks.get(fact.about, 2))
    if not ranks:
        return []
    worst = min(ranks.values())
    return [about for about, rank in ranks.items() if rank == worst]


def _exhausted(state: State, node: Node, token: Token) -> bool:
    return state.visits.get((node.name, token.about), 0) >= node.visits


def _count_visit(state: State, token: Token) -> State:
    key = (token.node, token.about)
    return replace(state, visits={**state.visits, key: state.visits.get(key, 0) + 1})


def _reason_to_skip(state: State, node: Node, spec: ToolSpec, token: Token) -> str | None:
    if not spec.built:
        return "not built yet"
    missing = [need for need in node.needs if need not in state.capabilities]
    if missing:
        return f"this machine lacks: {', '.join(missing)}"
    if spec.essential:
        return None
    if node.needs and not state.experiments:
        return "--no-experiments"
    cost = spec.seconds(view(state, token.about))
    if cost > state.budget:
        return f"budget: about {cost:.0f} s needed, {state.budget:.0f} s left"
    return None


def _requeue(state: State, event: Resume) -> State:
    again = [
        s
        for s in state.steps
        if s.status is StepStatus.SKIPPED
        and (s.detail.startswith("budget") or _allowed(s, event) or _met(s, event.capabilities))
    ]
    visits = dict(state.visits)
    interrupted = [(state.running.node, state.running.about)] if state.running else []
    for key in [*((s.node, s.about) for s in again), *interrupted]:
        visits[key] = max(0, visits.get(key, 0) - 1)
    tokens = tuple(Token(s.node, s.about, "resumed: its need is met now") for s in again)
    return replace(
        state,
        capabilities=event.capabilities,
        budget=event.budget,
        experiments=event.experiments,
        queue=(*tokens, *((state.running,) if state.running else ()), *state.queue),
        running=None,
        visits=visits,
        finished=False,
    )


def _allowed(skipped: Step, event: Resume) -> bool:
    return event.experiments and skipped.detail == "--no-experiments"


def _met(skipped: Step, capabilities: frozenset[str]) -> bool:
    head, _, missing = skipped.detail.partition("this machine lacks: ")
    return not head and all(need in capabilities for need in missing.split(", "))
