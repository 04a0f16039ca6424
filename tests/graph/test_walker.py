"""The walk as a pure function: what a changed graph, a missing capability, a budget or a finding does to it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from triage.graph import walker
from triage.graph.load import Graph, Node, loads
from triage.graph.spec import ToolSpec
from triage.knowledge.files import rules_root
from triage.model import Fact, Step, StepStatus
from triage.tools.registry import SPECS

TEXT = (rules_root() / "graph.toml").read_text(encoding="utf-8")
LAPTOP = frozenset({"execute", "tilelang", "cxx", "nvcc"})
#: every tool counted as built, so that the shape of the walk shows, not the state of the project
ALL_BUILT = {name: replace(spec, built=True, seconds=lambda facts: 0.0) for name, spec in SPECS.items()}

Answers = dict[str, tuple[Fact, ...]]


def walk(
    graph: Graph,
    answers: Answers,
    capabilities: frozenset[str] = LAPTOP,
    findings: tuple[walker.FindingView, ...] = (),
    found_at: str = "",
    tools=ALL_BUILT,
    budget: float = 100.0,
    experiments: bool = True,
) -> walker.State:
    """Walk to the end; `answers` are the facts each node adds, `findings` appear when `found_at` was run."""
    context = walker.Context(graph, tools)
    state, effect = walker.step(context, walker.State(), walker.Begin("script", capabilities, budget, experiments))
    known: tuple[walker.FindingView, ...] = ()
    for _ in range(500):
        if isinstance(effect, walker.Finish):
            return state
        known = findings if effect.node == found_at else known
        done = walker.Done(
            Step(effect.node, effect.tool, effect.about, seconds=1.0), answers.get(effect.node, ()), known
        )
        state, effect = walker.step(context, state, done)
    raise AssertionError("the walk does not end")


def ran(state: walker.State) -> list[str]:
    return [s.node for s in state.steps if s.status is StepStatus.RAN]


FAILS_TO_LOWER: Answers = {
    "observe": (
        Fact("error.text", "no available layout found"),
        Fact("error.stage", "layout"),
        Fact("kernel.failed", True, "kernel:k1"),
        Fact("kernel.failed", False, "kernel:k2"),
    ),
    "lower": (Fact("kernels.failing", 1),),
}
LOCALIZED = (walker.FindingView("kernel:k1", "localized", "kernel", "generation", "TLG001"),)


def test_the_generation_chain_ends_at_the_fix_once_localized() -> None:
    state = walk(loads(TEXT), FAILS_TO_LOWER, findings=LOCALIZED, found_at="statement")
    assert ran(state) == ["observe", "error", "static", "lower", "trace", "statement", "fix"]


def test_a_warning_with_a_place_does_not_keep_the_kernels_unchecked() -> None:
    """What a static check sees may be why the compiler warned: statements that never run write nothing."""
    read = {"observe": (Fact("warnings.count", 1),), "error": (Fact("errors.count", 0),)}
    assert ran(walk(loads(TEXT), read, findings=LOCALIZED, found_at="error")) == ["observe", "error", "static", "fix"]
    failed = {"observe": (Fact("error.text", "…"),), "error": (Fact("errors.count", 1),)}
    assert ran(walk(loads(TEXT), failed, findings=LOCALIZED, found_at="error")) == ["observe", "error", "fix"]


def test_only_the_failing_kernel_is_a_suspect() -> None:
    state = walk(loads(TEXT), FAILS_TO_LOWER)
    assert {s.about for s in state.steps if s.node == "trace"} == {"kernel:k1"}


def test_an_edge_explains_itself_with_the_observed_value() -> None:
    state = walk(loads(TEXT), FAILS_TO_LOWER)
    trace = next(s for s in state.steps if s.node == "trace")
    assert trace.why == "kernels.failing = 1"


def test_a_graph_without_the_statement_node_walks_on_to_switches() -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith("statement")]
    edited = "\n".join(lines).replace('then = "statement"', 'then = "switches"')
    state = walk(loads(edited), FAILS_TO_LOWER, findings=LOCALIZED, found_at="statement")
    assert "statement" not in ran(state) and "switches" in ran(state)


def test_a_new_node_is_walked_without_any_code_changed() -> None:
    edited = TEXT.replace('static    = {tool = "static-checks",    then = "lower"}',
                          'static    = {tool = "static-checks",    then = "again"}\n'
                          'again     = {tool = "static-checks",    then = "lower"}')  # fmt: skip
    assert ran(walk(loads(edited), FAILS_TO_LOWER))[:5] == ["observe", "error", "static", "again", "lower"]


def test_a_changed_condition_changes_the_way() -> None:
    edited = TEXT.replace('["trace", "kernels.failing > 0"]', '["trace", "kernels.failing > 1"]')
    assert "trace" in ran(walk(loads(TEXT), FAILS_TO_LOWER))
    assert "trace" not in ran(walk(loads(edited), FAILS_TO_LOWER))


def test_an_import_error_goes_to_the_doctor_first() -> None:
    answers = {"observe": (Fact("error.text", "No module named 'tilelang'"), Fact("error.stage", "import"))}
    assert ran(walk(loads(TEXT), answers))[:2] == ["observe", "inspect"]


def test_a_healthy_run_is_checked_statically_and_lowered() -> None:
    state = walk(loads(TEXT), {"observe": (Fact("run.status", "succeeded"), Fact("kernel.failed", False, "kernel:k1"))})
    assert ran(state)[:3] == ["observe", "static", "lower"]
    assert "trace" not in ran(state)


def test_a_missing_capability_skips_with_its_reason_and_walks_on() -> None:
    state = walk(loads(TEXT), FAILS_TO_LOWER, capabilities=frozenset({"execute"}))
    lower = next(s for s in state.steps if s.node == "lower")
    assert (lower.status, lower.detail) == (StepStatus.SKIPPED, "this machine lacks: tilelang")
    assert any(s.number > lower.number for s in state.steps)


def test_what_is_not_built_is_skipped() -> None:
    state = walk(loads(TEXT), FAILS_TO_LOWER, tools=SPECS)
    assert all(s.detail == "not built yet" for s in state.steps if not SPECS[s.tool].built)


def test_the_observing_run_does_not_use_the_budget_up() -> None:
    tools = {**ALL_BUILT, "lower-kernels": replace(ALL_BUILT["lower-kernels"], seconds=lambda facts: 5.0)}
    context = walker.Context(loads(TEXT), tools)
    state, _ = walker.step(context, walker.State(), walker.Begin("script", LAPTOP, 6.0))
    slow = Step("observe", "observe-run", seconds=600.0)
    state, effect = walker.step(context, state, walker.Done(slow, FAILS_TO_LOWER["observe"], counts=False))
    assert state.budget == 6.0 and isinstance(effect, walker.Run)


def test_too_small_a_budget_skips_and_resume_takes_it_up_again() -> None:
    tools = {**ALL_BUILT, "lower-kernels": replace(ALL_BUILT["lower-kernels"], seconds=lambda facts: 50.0)}
    state = walk(loads(TEXT), FAILS_TO_LOWER, tools=tools, budget=10.0)
    lower = next(s for s in state.steps if s.node == "lower")
    assert lower.detail.startswith("budget: about 50 s needed")
    state, effect = walker.step(walker.Context(loads(TEXT), tools), state, walker.Resume(LAPTOP, 100.0))
    assert isinstance(effect, walker.Run) and effect.node == "lower"


def test_resume_on_a_machine_with_the_missing_capability_runs_the_skipped_step() -> None:
    state = walk(loads(TEXT), FAILS_TO_LOWER, capabilities=frozenset({"execute"}))
    _, effect = walker.step(walker.Context(loads(TEXT), ALL_BUILT), state, walker.Resume(LAPTOP, 100.0))
    assert isinstance(effect, walker.Run) and effect.node == "lower"


def test_resume_after_a_kill_repeats_the_interrupted_step() -> None:
    context = walker.Context(loads(TEXT), ALL_BUILT)
    state, effect = walker.step(context, walker.State(), walker.Begin("script", LAPTOP, 10.0))
    _, effect = walker.step(context, state, walker.Resume(LAPTOP, 10.0))
    assert isinstance(effect, walker.Run) and effect.node == "observe"


def test_no_experiments_runs_only_what_needs_nothing_or_is_essential() -> None:
    state = walk(loads(TEXT), FAILS_TO_LOWER, experiments=False)
    assert [s.detail for s in state.steps if s.node == "lower"] == ["--no-experiments"]
    assert {"observe", "error", "static"} <= set(ran(state))


def test_more_suspects_than_the_limit_are_named_not_walked() -> None:
    many = tuple(Fact("kernel.failed", True, f"kernel:k{i}") for i in range(walker.MOST_SUSPECTS + 3))
    state = walk(loads(TEXT), {**FAILS_TO_LOWER, "observe": (Fact("error.text", "x"), *many)})
    assert len([s for s in state.steps if s.node == "trace"]) == walker.MOST_SUSPECTS
    assert len(state.left_out) == 3


def test_replaying_gives_the_same_state() -> None:
    first, second = (walk(loads(TEXT), FAILS_TO_LOWER, findings=LOCALIZED, found_at="statement") for _ in range(2))
    assert first == second


NAMES = [f"n{i}" for i in range(6)]
CONDITIONS = st.sampled_from(["x.a == true", "x.b > 3", "step.status == skipped", "finding.state is unknown"])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph at all, also one with cycles that the checks would refuse."""
    target = st.sampled_from([*NAMES, "end"])
    nodes = {"end": Node("end", end=True)}
    for name in NAMES:
        text = draw(st.lists(st.tuples(target, CONDITIONS), max_size=2))
        nodes[name] = Node(
            name, "t" + name, draw(target), tuple(draw(st.sets(st.sampled_from(["execute", "cuda"])))),
            draw(st.sampled_from(["run", "kernel"])), draw(st.integers(1, 3)), branches=_branches(text),
        )  # fmt: skip
    return Graph(nodes, {"script": "n0"})


def _branches(rows):
    from triage.conditions import parse
    from triage.graph.load import Branch

    return tuple(Branch(to, (parse(condition),)) for to, condition in rows)


@settings(max_examples=200, deadline=None)
@given(graphs(), st.booleans(), st.integers(0, 3))
def test_every_walk_over_any_graph_ends_within_its_visits(graph: Graph, a: bool, kernels: int) -> None:
    tools = {"t" + name: ToolSpec("t" + name, name) for name in NAMES}
    facts = (Fact("x.a", a), *(Fact("kernel.failed", bool(i % 2), f"kernel:k{i}") for i in range(kernels)))
    state = walk(graph, dict.fromkeys(NAMES, facts), tools=tools)
    counts: dict[tuple[str, str], int] = {}
    for step in state.steps:
        counts[step.node, step.about] = counts.get((step.node, step.about), 0) + 1
    assert all(count <= graph.nodes[node].visits for (node, _), count in counts.items())
    assert [s.number for s in state.steps] == list(range(1, len(state.steps) + 1))
