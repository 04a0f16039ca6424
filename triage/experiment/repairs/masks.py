"""Edits of what counts and what does not: elements beyond a tensor's end, and the one element that was meant among equal ones. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL
from triage.experiment.repairs.syntax import called, held, indices_of, names_in, operation

#: so many flags are tried in the place of another one
FLAGS = 6
#: what stands for an element that does not count, in a sum and in a maximum
NEUTRAL = ("0", '-T.infinity("float32")')


def edit_mask(draft: Draft, statement: ast.Assign | ast.AugAssign, body: list[ast.stmt]) -> None:
    """Edits of one statement of a kernel; `body` are all statements of the kernel."""
    _within(draft, statement, body)
    _still(draft, statement)
    _by_place(draft, statement)
    _other_flag(draft, statement)


def _within(draft: Draft, statement: ast.Assign | ast.AugAssign, body: list[ast.stmt]) -> None:
    """A value only as far as the tensor goes that its tile was copied from, or is copied to: zeros beyond the end are no zeros once they were shifted
    or exponentiated."""
    draft.family = "within"
    old = draft.text.of(statement.value)
    conditions = list(dict.fromkeys(_ends(draft, statement, body)))
    both = [" and ".join(f"({one})" for one in conditions)] if len(conditions) == 2 else []
    for condition in [*conditions, *both]:
        for neutral in NEUTRAL:
            new = f"T.if_then_else({condition}, {old}, {neutral})"
            draft.swap(statement, statement.value, new, "bounds", LESS_USUAL)


def _ends(draft: Draft, statement: ast.Assign | ast.AugAssign, body: list[ast.stmt]) -> Iterator[str]:
    """For each element of a copied tile that a statement reads or writes: how its index stays below the tensor's end."""
    known = {*draft.scope.blocks, *draft.scope.counters_around(statement), *draft.scope.sizes, *draft.scope.scalars}
    for node in (n for n in ast.walk(statement) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)):
        assert isinstance(node.value, ast.Name)
        source = _copied(node.value.id, statement, body) or _copied_to(node.value.id, statement, body)
        if source is None or not isinstance(source.value, ast.Name):
            continue
        ends, starts, indices = draft.scope.shape_of(source.value.id), indices_of(source), indices_of(node)
        if len(ends) != len(starts) or len(indices) > len(starts):
            continue
        away = len(starts) - len(indices)
        for start, end, index in zip(starts[away:], ends[away:], indices, strict=True):
            tiled = not isinstance(start, (ast.Constant, ast.Slice)) and names_in(start) <= known
            if tiled and not isinstance(index, (ast.Constant, ast.Slice)):
                yield f"{held(start, draft.text.of(start))} + {draft.text.of(index)} < {draft.text.of(end)}"


def _still(draft: Draft, statement: ast.Assign | ast.AugAssign) -> None:
    """A value under the condition under which an earlier statement put it: `-inf` is none any more after `tanh`."""
    draft.family = "still"
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    loop = next(iter(draft.scope.loops(statement)), None)
    for earlier in loop.body if loop is not None else ():
        chosen = earlier.value if isinstance(earlier, ast.Assign) and earlier.lineno < statement.lineno else None
        if not isinstance(chosen, ast.Call) or called(chosen) != "if_then_else" or len(chosen.args) != 3:
            continue
        if isinstance(earlier, ast.Assign) and draft.text.of(earlier.targets[0]) == draft.text.of(target):
            texts = [draft.text.of(argument) for argument in chosen.args]
            kept = 1 if not any(isinstance(n, ast.Subscript) for n in ast.walk(chosen.args[1])) else 2
            texts[3 - kept] = draft.text.of(statement.value)
            draft.swap(statement, statement.value, f"T.if_then_else({', '.join(texts)})", "condition", LESS_USUAL)


def _copied(tile: str, statement: ast.stmt, body: list[ast.stmt]) -> ast.Subscript | None:
    """Where a tile was copied from last before a statement."""
    found = None
    for node in (n for outer in body for n in ast.walk(outer) if isinstance(n, ast.Expr)):
        call = operation(node)
        if call is None or called(call) != "copy" or len(call.args) < 2 or node.lineno >= statement.lineno:
            continue
        source, target = call.args[:2]
        if isinstance(target, ast.Name) and target.id == tile and isinstance(source, ast.Subscript):
            found = source
    return found


def _copied_to(tile: str, statement: ast.stmt, body: list[ast.stmt]) -> ast.Subscript | None:
    """Where a tile is copied to first after a statement."""
    for node in (n for outer in body for n in ast.walk(outer) if isinstance(n, ast.Expr)):
        call = operation(node)
        if call is None or called(call) != "copy" or len(call.args) < 2 or node.lineno <= statement.lineno:
            continue
        source, target = call.args[:2]
        if isinstance(source, ast.Name) and source.id == tile and isinstance(target, ast.Subscript):
            return target
    return None


def _whole_numbers(draft: Draft) -> list[str]:
    """The buffers of integers."""
    return [name for name, call in draft.scope.buffers.items() if "int" in "".join(map(ast.unparse, call.args[1:]))]


def _other_flag(draft: Draft, statement: ast.Assign | ast.AugAssign) -> None:
    """Another flag than the one that is asked, at an element that a statement beside it speaks of."""
    draft.family = "flag"
    shapes = {name: draft.text.of(call.args[0]) for name, call in draft.scope.buffers.items() if call.args}
    loop = next(iter(draft.scope.loops(statement)), None)
    beside = [n for n in ast.walk(loop) if isinstance(n, ast.Subscript)] if loop is not None else []
    flags = [
        f"{flag}[{draft.text.of(node.slice)}]"
        for node in beside
        for flag in _whole_numbers(draft)
        if flag in shapes and shapes[flag] == shapes.get(draft.text.of(node.value))
    ]
    for node in (n for n in ast.walk(statement.value) if isinstance(n, ast.Compare) and len(n.ops) == 1):
        if isinstance(node.left, ast.Subscript) and isinstance(node.comparators[0], ast.Constant):
            for flag in list(dict.fromkeys(flags))[:FLAGS]:
                draft.swap(statement, node.left, flag, "condition", LESS_USUAL)


def _by_place(draft: Draft, statement: ast.Assign | ast.AugAssign) -> None:
    """The element at a place that is known, and not all that are equal to it: `a[i, j] == top[i]` as `j == place[i]`."""
    draft.family = "place"
    places = _whole_numbers(draft)
    for node in (n for n in ast.walk(statement.value) if isinstance(n, ast.Compare) and len(n.ops) == 1):
        sides = (node.left, node.comparators[0])
        if not isinstance(node.ops[0], (ast.Eq, ast.NotEq)) or not all(isinstance(s, ast.Subscript) for s in sides):
            continue
        many, few = sorted(sides, key=lambda side: -len(indices_of(side)))  # type: ignore[arg-type]
        rows = [draft.text.of(index) for index in indices_of(few)]  # type: ignore[arg-type]
        left = [draft.text.of(index) for index in indices_of(many) if draft.text.of(index) not in rows]  # type: ignore[arg-type]
        sign = "==" if isinstance(node.ops[0], ast.Eq) else "!="
        for place in places if len(left) == 1 else ():
            draft.swap(statement, node, f"{left[0]} {sign} {place}[{', '.join(rows)}]", "condition", LESS_USUAL)
