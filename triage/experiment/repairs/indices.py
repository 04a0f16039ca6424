"""Edits of indices and slices, and of names in the place of others. Pure."""

from __future__ import annotations

import ast
import copy
import itertools
import re
from collections import Counter

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, RARE, USUAL
from triage.experiment.repairs.scope import ALTERNATIVES, PARALLEL, kind_of
from triage.experiment.repairs.syntax import ALLOCATING, called, expressions, held, indices_of, names_in

#: so many other names are usual mistakes for one
NEAREST = 3
#: so many names are followed to what they stand for
DEEP = 4


def edit_subscript(draft: Draft, statement: ast.stmt, node: ast.Subscript) -> None:
    """Two indices exchanged; an index further on or nearer, by one, by a value of the kernel, or with a loop or block."""
    indices = indices_of(node)
    for one, other in itertools.pairwise(indices):
        draft.exchange(statement, one, other, "index")
    for other_memory in _other_memory(draft, node):
        draft.swap(statement, node.value, other_memory, "index", LESS_USUAL)
    for one in indices:
        start = one.lower if isinstance(one, ast.Slice) else one
        if isinstance(start, (ast.Name, ast.BinOp)):
            old = draft.text.of(start)
            relative = draft.scope.compared_with(start.id) if isinstance(start, ast.Name) else []
            shifts = draft.scope.scalars[:NEAREST] if _is_memory(draft, node) else []
            for name in dict.fromkeys((*relative, *shifts)):
                if name not in names_in(start):
                    draft.swap(statement, start, f"{old} - {name}", "offset", USUAL if name in relative else LESS_USUAL)
            for new in (f"{old} + 1", f"{old} - 1"):
                draft.swap(statement, start, new, "offset", LESS_USUAL)
        if isinstance(node.value, ast.Name):
            _moved_on(draft, statement, node, one)
    _first(draft, statement, node)


def _first(draft: Draft, statement: ast.stmt, node: ast.Subscript) -> None:
    """The first element for all, where each block or lane reads one of its own: a pivot, a level, a scale."""
    draft.family = "first"
    for index in indices_of(node) if _is_memory(draft, node) and isinstance(node.ctx, ast.Load) else ():
        if isinstance(index, (ast.Name, ast.BinOp)):
            lane = draft.text.of(index) in draft.scope.counters
            draft.swap(statement, index, "0", "offset", RARE if lane else LESS_USUAL)


def _moved_on(draft: Draft, statement: ast.stmt, node: ast.Subscript, index: ast.expr) -> None:
    """An index that says nothing of the loop or block it is in: a tile that stands still."""
    start = index.lower if isinstance(index, ast.Slice) else index
    used = names_in(node)
    around = [name for name in draft.scope.counters_around(statement) if name not in used]
    blocks = [name for name in draft.scope.blocks if name not in used]
    if isinstance(start, ast.Constant) and start.value == 0:
        for counter, size in itertools.product((*around, *blocks), draft.scope.sizes):
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


def _other_memory(draft: Draft, node: ast.Subscript) -> list[str]:
    """Other tensors with as many dimensions: keys for values."""
    memory = draft.scope.memory
    own = node.value.id if isinstance(node.value, ast.Name) else ""
    return [name for name, rank in memory.items() if rank and name != own and rank == memory.get(own)][:NEAREST]


def _is_memory(draft: Draft, node: ast.Subscript) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in draft.scope.memory


def edit_name(draft: Draft, statement: ast.stmt, node: ast.Name, index: bool) -> None:
    """Another name of the same sort. Shapes of buffers and extents of parallel loops have to fit what they are used for."""
    for number, other in enumerate(draft.scope.alike(node.id, statement)):
        draft.family = f"name {number}"  # the likeliest one of each name before others of any
        likely = number < NEAREST
        if _fits(statement):
            grade = RARE
        elif draft.scope.in_kernel(statement):
            alike = draft.scope.sort_of(node.id) == draft.scope.sort_of(other)
            grade = USUAL if number < 2 and alike else LESS_USUAL
        else:
            grade = LESS_USUAL if likely else RARE
        draft.swap(statement, node, other, "index" if index else "scale", grade)


def edit_unit(draft: Draft, statement: ast.stmt, node: ast.Name) -> None:
    """A size in an index in another unit: vectors as elements."""
    draft.family = "unit"
    if node.id in draft.scope.sizes and node.id not in draft.scope.constants:
        given = {*draft.scope.given, *draft.scope.counters}  # which hide a number of the module of the same name
        for constant in [one for one in draft.scope.constants if one not in given][:NEAREST]:
            draft.swap(statement, node, f"{node.id} * {constant}", "offset", LESS_USUAL)


def edit_by_definition(draft: Draft, statement: ast.stmt, node: ast.Name) -> None:
    """What a name was bound to, before that was limited: `lo + size` may mean the `lo` that is not at least 0; or, of what was read from a
    table, at which place of it."""
    value = draft.scope.definition(node.id, statement)
    draft.family = "definition"
    if isinstance(value, ast.Subscript) and len(indices_of(value)) == 1 and not isinstance(value.slice, ast.Slice):
        draft.swap(statement, node, held(value.slice, draft.text.of(value.slice)), "index", RARE)
    for inner in value.args if isinstance(value, ast.Call) and called(value) in ("max", "min") else ():
        if not isinstance(inner, ast.Constant):
            draft.swap(statement, node, held(inner, draft.text.of(inner)), "bounds", RARE)


def edit_of_another_size(draft: Draft, statement: ast.stmt, node: ast.Name) -> None:
    """A share `A // n` that a name stands for, of another size: channels of the output where those of the input were meant."""
    draft.family = "share"
    value = draft.scope.share(node.id)
    if value is None or not isinstance(value.left, ast.Name):
        return
    divisor = draft.text.of(value.right)
    for other in draft.scope.alike(value.left.id, statement)[:ALTERNATIVES]:
        if other not in names_in(value):
            draft.swap(statement, node, f"({other} // {held(value.right, divisor)})", "index", LESS_USUAL)


def edit_for_another(draft: Draft, statement: ast.stmt, node: ast.Name) -> None:
    """What a name was bound to, computed for another index: a row's degree or scale where that of its neighbour is meant."""
    draft.family = "another"
    through = [node.id]
    value = _spelled_out(draft, node, statement, DEEP, through)
    if value is None or not any(isinstance(inner, ast.Subscript) for inner in ast.walk(value)):
        return
    text = ast.unparse(value)
    counted = [name for name in dict.fromkeys(draft.scope.scalars) if name not in {*names_in(value), *through}]
    for own in sorted(names_in(value) & {*draft.scope.scalars, *draft.scope.counters}):
        for other in counted[:ALTERNATIVES]:
            if draft.scope.definition(other, statement) is not None:
                new = re.sub(rf"\b{re.escape(own)}\b", other, text)
                draft.swap(statement, node, f"({new})", "index", LESS_USUAL)


def _spelled_out(draft: Draft, node: ast.Name, statement: ast.stmt, deep: int, through: list[str]) -> ast.expr | None:
    """What a named value was computed of, with the named values in that spelled out, too, but for indices; None where nothing is known.
    `through` gets the names that are spelled out."""
    value = draft.scope.definition(node.id, statement) if node.id in draft.scope.scalars and deep else None
    if value is None:
        return None
    value = copy.deepcopy(value)
    within = {id(inner) for index in ast.walk(value) if isinstance(index, ast.Subscript) for inner in ast.walk(index)}

    class Spelling(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            inner = None if id(name) in within else _spelled_out(draft, name, statement, deep - 1, through)
            if inner is None:
                return name
            through.append(name.id)
            return inner

    return Spelling().visit(value)  # type: ignore[no-any-return]


def _fits(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    allocates = isinstance(value, ast.Call) and called(value) in ALLOCATING
    return allocates or (isinstance(statement, ast.For) and kind_of(statement) in PARALLEL)


def edit_every_name(draft: Draft, statement: ast.stmt, following: ast.stmt | None) -> None:
    """Another size wherever the statement and the next one say one; or two block variables exchanged throughout."""
    draft.family = "statement"
    nodes = _names(statement)
    times = Counter(node.id for node in nodes)
    for name in (name for name in times if name in draft.scope.sizes):
        here = [node for node in nodes if node.id == name]
        beside = [node for node in _names(following) if node.id == name]
        for other in draft.scope.alike(name, statement)[:NEAREST] if beside else ():
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
