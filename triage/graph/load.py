"""Read `graph.toml` into a `Graph`; every mistake is reported at once, with the name of the node it is in."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triage.conditions import Condition, ConditionError, parse

SCHEMA = "triage.graph/1"
PER = ("run", "kernel", "comparison")
_NODE_KEYS = {"tool", "then", "needs", "per", "visits", "category", "end"}


class GraphError(ValueError):
    """The graph cannot be used. `problems` holds one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("the decision graph is not usable:\n" + "\n".join(f"  {p}" for p in problems))
        self.problems = problems


@dataclass(frozen=True)
class Branch:
    """A way out of a node that is taken when all its conditions hold."""

    to: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Node:
    """One place of the graph. `then` is the way on when no branch fits; an end has neither tool nor `then`."""

    name: str
    tool: str = ""
    then: str = ""
    needs: tuple[str, ...] = ()
    per: str = "run"
    visits: int = 1
    category: str | None = None
    end: bool = False
    branches: tuple[Branch, ...] = ()


@dataclass(frozen=True)
class Graph:
    nodes: Mapping[str, Node]
    start: Mapping[str, str] = field(default_factory=dict)  # subject kind -> node

    def edges(self) -> list[tuple[str, str, Branch | None]]:
        """All edges in the order in which they are tried; the branch is None for `then`."""
        return [
            edge
            for node in self.nodes.values()
            for edge in [
                *((node.name, branch.to, branch) for branch in node.branches),
                *([(node.name, node.then, None)] if node.then else []),
            ]
        ]


def load(path: Path) -> Graph:
    """Read a graph file. Raises `GraphError` for anything that is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise GraphError([f"{path}: {error.strerror}"]) from None
    return loads(text)


def loads(text: str) -> Graph:
    """Parse the text of a graph file."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GraphError([f"not TOML: {error}"]) from None
    problems: list[str] = []
    if data.get("schema") != SCHEMA:
        problems.append(f"schema is {data.get('schema')!r}, expected {SCHEMA!r}")
    raw_nodes = _table(data, "nodes", problems)
    raw_branches = _table(data, "branches", problems)
    problems += [f"branches.{name}: no such node" for name in raw_branches if name not in raw_nodes]
    nodes = {name: _node(name, raw, raw_branches.get(name, []), problems) for name, raw in raw_nodes.items()}
    start = {str(k): str(v) for k, v in _table(data, "start", problems).items()}
    problems += [f"start.{kind}: no such node {to!r}" for kind, to in start.items() if to not in nodes]
    graph = Graph(nodes, start)
    problems += [f"{a}: leads to {b!r}, which is no node" for a, b, _ in graph.edges() if b not in nodes]
    if problems:
        raise GraphError(problems)
    return graph


def _table(data: dict[str, Any], key: str, problems: list[str]) -> dict[str, Any]:
    value = data.get(key, {})
    if isinstance(value, dict):
        return value
    problems.append(f"[{key}] must be a table")
    return {}


def _node(name: str, raw: Any, raw_branches: Any, problems: list[str]) -> Node:
    if not isinstance(raw, dict):
        problems.append(f"{name}: must be a table")
        return Node(name)
    problems += [f"{name}: unknown key {key!r}" for key in raw if key not in _NODE_KEYS]
    end, per, visits = raw.get("end", False), raw.get("per", "run"), raw.get("visits", 1)
    if end is True and (raw.get("tool") or raw.get("then") or raw_branches):
        problems.append(f"{name}: an end has no tool, no `then` and no branches")
    if end is not True and not (raw.get("tool") and raw.get("then")):
        problems.append(f"{name}: needs a tool and a `then`, or `end = true`")
    if per not in PER:
        problems.append(f"{name}: per = {per!r}, expected one of {', '.join(PER)}")
    if not isinstance(visits, int) or isinstance(visits, bool) or visits < 1:
        problems.append(f"{name}: visits = {visits!r}, expected a number of at least 1")
        visits = 1
    branches = tuple(b for row in raw_branches if (b := _branch(name, row, problems)))
    return Node(
        name, raw.get("tool", ""), raw.get("then", ""), tuple(raw.get("needs", ())), per, visits,
        raw.get("category"), end is True, branches,
    )  # fmt: skip


def _branch(name: str, row: Any, problems: list[str]) -> Branch | None:
    if not isinstance(row, list) or not row or not all(isinstance(word, str) for word in row):
        problems.append(f"{name}: a branch is a list of a node name and conditions, got {row!r}")
        return None
    if len(row) == 1:
        problems.append(f"{name}: the branch to {row[0]!r} has no condition; use `then`")
    conditions = []
    for text in row[1:]:
        try:
            conditions.append(parse(text))
        except ConditionError as error:
            problems.append(f"{name}: {error}")
    return Branch(row[0], tuple(conditions))
