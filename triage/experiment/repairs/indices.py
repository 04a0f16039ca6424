"""Edits of indices and slices, and of names in the place of others. Pure."""

from __future__ import annotations

import ast
import itertools
from collections import Counter

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, USUAL
from triage.experiment.repairs.scope import ALTERNATIVES
from triage.experiment.repairs.syntax import expressions, indices_of, names_in


def edit_subscript(draft: Draft, statement: ast.stmt, node: ast.Subscript) -> None:
    """Two indices exchanged; an index further on or nearer, by one, by a value of the kernel, or with a loop or block."""
    indices = indices_of(node)
    for one, other in itertools.pairwise(indices):
        draft.exchange(statement, one, other, "index")
    for one in indices:
        start = one.lower if isinstance(one, ast.Slice) else one
        if isinstance(start, (ast.Name, ast.BinOp)):
            old = draft.text.of(start)
            for scalar in draft.scope.scalars[:ALTERNATIVES]:
                draft.swap(statement, start, f"{old} - {scalar}", "offset", LESS_USUAL)
            for new in (f"{old} + 1", f"{old} - 1"):
                draft.swap(statement, start, new, "offset", LESS_USUAL)
        if isinstance(node.value, ast.Name):
            _moved_on(draft, statement, node, one)


def _moved_on(draft: Draft, statement: ast.stmt, node: ast.Subscript, index: ast.expr) -> None:
    """An index that says nothing of the loop or block it is in: a tile that stands still."""
    start = index.lower if isinstance(index, ast.Slice) else index
    used = names_in(node)
    around = [name for name in draft.scope.counters_around(statement) if name not in used]
    blocks = [name for name in draft.scope.blocks if name not in used]
    if isinstance(start, ast.Constant) and start.value == 0:
        for counter, size in itertools.product((*around, *blocks), draft.scope.sizes[: 2 * ALTERNATIVES]):
            grade = USUAL if counter in around else LESS_USUAL
            if isinstance(index, ast.Slice) and index.upper is not None:
                new = f"{counter} * {size}:{counter} * {size} + {draft.text.of(index.upper)}"
                draft.swap(statement, index, new, "offset", grade)
            else:
                draft.swap(statement, start, f"{counter} * {size}", "offset", grade)
    elif isinstance(start, ast.Name) and start.id in draft.scope.extents and _is_memory(draft, node):
        extent = draft.text.of(draft.scope.extents[start.id])
        for counter in (*around, *blocks):
            draft.swap(statement, start, f"{counter} * ({extent}) + {start.id}", "index", LESS_USUAL)


def _is_memory(draft: Draft, node: ast.Subscript) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in draft.scope.memory


def edit_name(draft: Draft, statement: ast.stmt, node: ast.Name, index: bool) -> None:
    """Another name of the same sort."""
    for other in draft.scope.alike(node.id):
        draft.swap(statement, node, other, "index" if index else "operator")


def edit_every_name(draft: Draft, statement: ast.stmt, following: ast.stmt | None) -> None:
    """Another name wherever the statement says one, also in the next statement; or two of them exchanged throughout."""
    nodes = _names(statement)
    times = Counter(node.id for node in nodes)
    for name in times:
        here = [node for node in nodes if node.id == name]
        if len(here) > 1:
            for other in draft.scope.alike(name):
                _renamed(draft, statement, here, name, other)
        beside = [node for node in _names(following) if node.id == name] if following is not None else []
        if beside and name in draft.scope.sizes:
            for other in draft.scope.alike(name):
                _renamed(draft, statement, [*here, *beside], name, other)
    for one, other in itertools.combinations([name for name in times if name in draft.scope.blocks], 2):
        changes = [
            draft.text.replaced(node, other if node.id == one else one) for node in nodes if node.id in (one, other)
        ]
        draft.add(statement, "index", f"`{one}` and `{other}` exchanged", *changes)


def _renamed(draft: Draft, statement: ast.stmt, nodes: list[ast.Name], name: str, other: str) -> None:
    changes = [draft.text.replaced(node, other) for node in nodes]
    draft.add(statement, "index", f"`{other}` for `{name}` throughout", *changes, rare=LESS_USUAL)


def _names(statement: ast.stmt | None) -> list[ast.Name]:
    """The names that a simple statement reads."""
    roots = expressions(statement) if isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)) else ()
    found = (node for root in roots for node in ast.walk(root))
    return [node for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
