"""Edits of how far loops and grids go. Pure."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, RARE, USUAL
from triage.experiment.repairs.expressions import edit_expression
from triage.experiment.repairs.scope import PARALLEL, kind_of
from triage.experiment.repairs.syntax import called, target_names


def edit_loop(draft: Draft, loop: ast.For) -> None:
    """How far a loop goes, and where it starts. The extents of parallel loops fit their buffers, so no one is off by one."""
    if not isinstance(loop.iter, ast.Call):
        return
    draft.family = "bounds"
    call, parallel = loop.iter, kind_of(loop) in PARALLEL
    for argument in call.args:
        if not parallel:
            _bound(draft, loop, argument)
        edit_expression(draft, loop, argument, bounds=True)
    if called(call) in ("range", "serial", "Serial") and len(call.args) == 1:
        only = draft.text.of(call.args[0])
        says = f"start at 1: `{called(call)}(1, {only})`"
        draft.add(loop, "bounds", says, draft.text.replaced(call.args[0], f"1, {only}"), rare=LESS_USUAL)


def edit_grid(draft: Draft, kernel: ast.With, item: ast.withitem) -> None:
    """The number of blocks, and which variable counts which."""
    arguments = item.context_expr.args if isinstance(item.context_expr, ast.Call) else []
    for argument in arguments:
        _bound(draft, kernel, argument)
        edit_expression(draft, kernel, argument, bounds=True)
    for one, other in itertools.pairwise(arguments):
        draft.exchange(kernel, one, other, "index")
    variables = item.optional_vars.elts if isinstance(item.optional_vars, ast.Tuple) else []
    for first, second in itertools.pairwise(variables):
        draft.exchange(kernel, first, second, "index", LESS_USUAL)


def _bound(draft: Draft, statement: ast.stmt, node: ast.expr) -> None:
    old = draft.text.of(node)
    divided = _divided(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        new = f"T.ceildiv({draft.text.of(node.left)}, {draft.text.of(node.right)})"
        draft.swap(statement, node, new, "bounds")
    elif divided is not None:
        above, below = (draft.text.of(part) for part in divided)
        draft.swap(statement, node, f"({above}) // ({below})", "bounds")
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.right, ast.Constant):
        draft.swap(statement, node, f"({draft.text.of(node.left)})", "bounds")  # one too few, or too many
    grade = USUAL if divided is not None else LESS_USUAL
    draft.swap(statement, node, f"({old}) + 1", "bounds", grade)
    draft.swap(statement, node, f"({old}) - 1", "bounds", LESS_USUAL)
    if divided is not None:
        for other in _shares(draft, draft.text.of(divided[0])):
            draft.swap(statement, divided[0], other, "bounds", LESS_USUAL)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and inner.value == 1 and not isinstance(inner.value, bool):
            for size in draft.scope.sizes:
                draft.swap(statement, inner, size, "bounds", USUAL if inner is not node else LESS_USUAL)
    if isinstance(statement, ast.For):
        _up_to_counter(draft, statement, node)


def _divided(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """What is divided by what, rounded up or down."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        return node.left, node.right
    if isinstance(node, ast.Call) and called(node) in ("ceildiv", "cdiv") and len(node.args) == 2:
        return node.args[0], node.args[1]
    return None


def _shares(draft: Draft, old: str) -> Iterator[str]:
    """Parts that the kernel divides something into: what one of them has to do is often what a bound should have said."""
    seen = {old}
    for node in ast.walk(draft.scope.function):
        if isinstance(node, ast.expr) and _divided(node) is not None:
            text = draft.text.of(node)
            if text not in seen and old not in text:
                seen.add(text)
                yield text


def _up_to_counter(draft: Draft, loop: ast.For, node: ast.expr) -> None:
    """A loop that goes to the end, where it should go as far as an outer counter only, or the other way round."""
    own = set(target_names(loop.target))
    if isinstance(node, ast.Name) and node.id not in draft.scope.counters:
        for counter in [c for c in draft.scope.counters_around(loop) if c not in own][:2]:
            draft.swap(loop, node, f"{counter} + 1", "bounds", RARE)
