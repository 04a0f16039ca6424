"""Static checks of a graph: what must hold for every walk, whatever the subject does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from triage.conditions import OPERATORS, Condition, literal
from triage.graph.load import Graph
from triage.graph.spec import LAYERS, ToolSpec, layer
from triage.model import Category

if TYPE_CHECKING:
    import networkx

#: Facts nobody has to add: the walker itself supplies them.
BUILT_IN = ("machine.", "step.", "finding.")


def check(graph: Graph, tools: Mapping[str, ToolSpec], fact_types: Mapping[str, str]) -> list[str]:
    """All problems of a loaded graph, one sentence each; an empty list means it is sound.

    `fact_types` maps each declared fact to `bool`, `int`, `float`, `str` or `list`.
    """
    return [
        *_names(graph, tools, fact_types),
        *_conditions(graph, fact_types),
        *_ways(graph),
        *_layers(graph),
        *_supply(graph, tools),
    ]


def network(graph: Graph) -> networkx.MultiDiGraph:
    """The graph as networkx sees it; an edge carries the text of its conditions (empty for `then`)."""
    import networkx

    net = networkx.MultiDiGraph()
    net.add_nodes_from(graph.nodes)
    for source, target, branch in graph.edges():
        label = " and ".join(c.text for c in branch.conditions) if branch else ""
        net.add_edge(source, target, label=label)
    return net


def _names(graph: Graph, tools: Mapping[str, ToolSpec], fact_types: Mapping[str, str]) -> list[str]:
    used = {node.tool for node in graph.nodes.values() if node.tool}
    problems = [
        f"{n.name}: no tool is called {n.tool!r}" for n in graph.nodes.values() if n.tool and n.tool not in tools
    ]
    problems += [f"tool {name!r} stands at no node" for name in tools if name not in used]
    problems += [
        f"tool {spec.name!r} adds {fact!r}, which facts.toml does not declare"
        for spec in tools.values()
        for fact in spec.adds
        if fact not in fact_types
    ]
    problems += [
        f"{node.name}: category {node.category!r} is none of {', '.join(Category)}"
        for node in graph.nodes.values()
        if node.category is not None and node.category not in tuple(Category)
    ]
    if not graph.start:
        problems.append("[start] names no node")
    return problems


def _conditions(graph: Graph, fact_types: Mapping[str, str]) -> list[str]:
    problems = []
    for node in graph.nodes.values():
        for branch in node.branches:
            for condition in branch.conditions:
                problem = _type_problem(condition, fact_types)
                if problem:
                    problems.append(f"{node.name} → {branch.to}: {problem}")
    return problems


def _type_problem(condition: Condition, fact_types: Mapping[str, str]) -> str | None:
    kind = fact_types.get(condition.fact)
    if kind is None and not condition.fact.startswith("machine."):
        return f"{condition.text!r}: no fact is called {condition.fact!r}"
    if condition.op in ("known", "unknown"):
        return None
    if condition.op in OPERATORS and condition.op not in ("==", "!=") and kind not in ("int", "float"):
        return f"{condition.text!r}: {condition.fact} is {kind}, which has no order"
    for word in condition.right:
        if word in fact_types:
            if fact_types[word] != kind:
                return f"{condition.text!r}: compares {kind} with {fact_types[word]}"
        elif not _fits(literal(word), kind or "bool"):
            return f"{condition.text!r}: {word!r} is no {kind}"
    return None


def _fits(value: Any, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "float"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return True


def _ways(graph: Graph) -> list[str]:
    import networkx

    net = network(graph)
    starts = set(graph.start.values())
    ends = {name for name, node in graph.nodes.items() if node.end}
    reached = starts.union(*(networkx.descendants(net, s) for s in starts)) if starts else set()
    finishing = ends.union(*(networkx.ancestors(net, e) for e in ends)) if ends else set()
    problems = [f"{name}: no start leads here" for name in graph.nodes if name not in reached]
    problems += [f"{name}: no end can be reached from here" for name in graph.nodes if name not in finishing]
    return problems


def _layers(graph: Graph) -> list[str]:
    """`then` does not return to a cheaper layer, except to a node that may be visited again; free nodes and ends cost
    nothing and are open from everywhere."""
    problems = []
    for node in graph.nodes.values():
        if not node.then:
            continue
        following = graph.nodes[node.then]
        here, there = layer(node.needs), layer(following.needs)
        if there != "free" and following.visits == 1 and LAYERS.index(there) < LAYERS.index(here):
            problems.append(f"{node.name} ({here}) → {following.name} ({there}): `then` returns to a cheaper layer")
    return problems


def _supply(graph: Graph, tools: Mapping[str, ToolSpec]) -> list[str]:
    """Every fact that a branch reads can have been added at this node or before it."""
    import networkx

    net = network(graph)
    problems = []
    for node in graph.nodes.values():
        before = {node.name, *networkx.ancestors(net, node.name)}
        added = {fact for name in before if (spec := tools.get(graph.nodes[name].tool)) for fact in spec.adds}
        for branch in node.branches:
            for condition in branch.conditions:
                if not condition.fact.startswith(BUILT_IN) and condition.fact not in added:
                    problems.append(f"{node.name} → {branch.to}: nothing before it adds {condition.fact}")
    return problems
