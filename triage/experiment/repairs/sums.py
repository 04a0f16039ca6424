"""Edits that a running maximum asks for: what was summed up so far has to be rescaled when the maximum grows. Pure."""

from __future__ import annotations

import ast
import itertools

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL
from triage.experiment.repairs.syntax import called, names_in


def edit_sums(draft: Draft, kernel: ast.With) -> None:
    """The sums so far times a factor that the kernel computes, or could, and does not use, or uses for another sum."""
    for factor in _factors(draft):
        for statement in (s for s in ast.walk(kernel) if isinstance(s, ast.stmt)):
            _sum(draft, statement, f"{factor}[i]")
            _product(draft, statement, f"{factor}[i]")
    _crossed(draft, kernel)
    read = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name)} - _only_written(kernel)
    for idle in [name for name in draft.scope.buffers if name not in read]:
        origin = _copied_from(kernel, idle)
        grown = f"{idle}[i] - {origin}[i]"
        factors = [f"T.exp({grown})", f"T.exp2({grown})"] if origin else [f"{idle}[i]"]
        for statement in (s for s in ast.walk(kernel) if isinstance(s, ast.stmt)):
            for factor in factors:
                _sum(draft, statement, factor)
                _product(draft, statement, factor)


def _crossed(draft: Draft, kernel: ast.With) -> None:
    """A sum so far with another one times how far a maximum or mean has moved: of `sum(p * (x - m))`, `sum(p)` times that."""
    draft.family = "crossed"
    sums: dict[str, list[tuple[ast.Assign, ast.Subscript]]] = {}
    for statement in (s for s in ast.walk(kernel) if isinstance(s, ast.Assign)):
        target = draft.text.of(statement.targets[0])
        loads = [n for n in ast.walk(statement.value) if isinstance(n, ast.Subscript) and draft.text.of(n) == target]
        if len(loads) == 1 and isinstance(statement.targets[0], ast.Subscript):
            sums.setdefault(target, []).append((statement, loads[0]))
    moved = {
        draft.text.of(n): names_in(n.left.slice)
        for n in ast.walk(kernel)
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub)
        and isinstance(n.left, ast.Subscript) and isinstance(n.right, ast.Subscript)
        and draft.text.of(n.left.slice) == draft.text.of(n.right.slice)
    }  # fmt: skip
    for target, grown in sums.items():
        for statement, own in grown:
            index = names_in(own.slice)
            for other, by in itertools.product([name for name in sums if name != target], moved):
                if moved[by] == index and names_in(ast.parse(other, mode="eval").body) >= index:
                    for sign in "+-":
                        draft.swap(statement, own, f"({target} {sign} {other} * ({by}))", "reduction", LESS_USUAL)


def _factors(draft: Draft) -> list[str]:
    """The buffers of one dimension with whose elements the kernel multiplies those of another, as a rescaled sum."""
    found: dict[str, None] = {}
    for statement in (n for n in ast.walk(draft.scope.function) if isinstance(n, (ast.Assign, ast.AugAssign))):
        target = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
        products = [n for n in ast.walk(statement.value) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
        pairs = [(n.left, n.right) for n in products]
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Mult):
            pairs.append((target, statement.value))
        for pair in pairs:
            names = [_element_of(side) for side in pair]
            if all(names):
                found |= {name: None for name in names if name and name != _element_of(target)}
    ranks = {name: call.args[0] for name, call in draft.scope.buffers.items() if call.args}
    return [name for name in found if name in ranks and len(getattr(ranks[name], "elts", ())) == 1]


def _element_of(node: ast.expr) -> str | None:
    """The buffer that an expression is one element of."""
    return node.value.id if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) else None


def _only_written(kernel: ast.With) -> set[str]:
    """Buffers that the kernel stores to or copies into, and never reads."""
    written: set[str] = set()
    targets: set[int] = set()
    for node in ast.walk(kernel):
        target: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value
        elif isinstance(node, ast.Call) and called(node) in ("copy", "clear", "fill") and node.args:
            target = node.args[-1 if called(node) == "copy" else 0]
        if isinstance(target, ast.Name):
            targets.add(id(target))
            written.add(target.id)
    names = (node for node in ast.walk(kernel) if isinstance(node, ast.Name) and id(node) not in targets)
    return written - {node.id for node in names if isinstance(node.ctx, ast.Load)}


def _copied_from(kernel: ast.With, name: str) -> str | None:
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and called(node) == "copy" and len(node.args) > 1:
            one, other = node.args[:2]
            if isinstance(one, ast.Name) and isinstance(other, ast.Name) and other.id == name:
                return one.id
    return None


def _sum(draft: Draft, statement: ast.stmt, factor: str) -> None:
    """`s[i] = s[i] + x` with the sum so far rescaled."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return
    target, value = draft.text.of(statement.targets[0]), statement.value
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and draft.text.of(value.left) == target:
        draft.swap(statement, value.left, f"{target} * {factor}", "initial value")


def _product(draft: Draft, statement: ast.stmt, factor: str) -> None:
    """A tile rescaled before a product is added to it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or called(call) != "gemm" or len(call.args) < 3:
        return
    tile = call.args[2]
    own = draft.scope.buffers.get(tile.id) if isinstance(tile, ast.Name) else None
    shape = own.args[0] if own is not None and own.args else None
    around = draft.scope.serial_loops(statement)
    fresh = not around or (isinstance(tile, ast.Name) and draft.scope.cleared_in(around[0], tile.id))
    if not fresh and isinstance(shape, (ast.Tuple, ast.List)) and len(shape.elts) == 2:
        rows, columns = (draft.text.of(extent) for extent in shape.elts)
        name = draft.text.of(tile)
        loop = f"for i, j in T.Parallel({rows}, {columns}):", f"    {name}[i, j] *= {factor}"
        says = f"with `{name}[i, j] *= {factor}` before it"
        draft.add(statement, "initial value", says, draft.text.before(statement, *loop))
