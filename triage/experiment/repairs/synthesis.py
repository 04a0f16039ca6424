"""Edits beyond the usual slips: what can be made of a statement from the names around it, and two usual edits at once. Pure.

There are thousands of them, so that they are of use only to who can look at hundreds a second (`screen`), and they come last: a change
found among so many says less than a usual slip.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from triage.experiment.repairs.calls import LOG2_E
from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, MOVABLE, PAIRED, SYNTHETIC, Edit
from triage.experiment.repairs.syntax import (
    COMPARISONS,
    OPERATORS,
    expressions,
    held,
    indices_of,
    names_in,
    target_names,
    walk,
)

#: what a value may have to go through, and what it may go through too much
UNARY = ("round", "floor", "ceil", "trunc", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid")
#: widths of packed integers with a sign
SIGNED = (4, 8)
#: so many names of each sort, elements of other buffers, other conditions and other indices are tried in one place
COUNTERS, SIZES, LOADS, CONDITIONS, INDICES, NAMED = 6, 8, 10, 10, 20, 4
#: so many pairs of the usual edits of one statement
PAIRS = 500


def edit_freely(draft: Draft, statement: ast.stmt, body: ast.With | ast.FunctionDef) -> None:
    """All edits of one simple statement of a kernel or a macro, `body`, or of the header of a loop or a condition, that need only names which
    it could use."""
    around = _Around(draft, statement, body)
    if isinstance(statement, ast.For):
        _extents(draft, statement, around)
        return
    if isinstance(statement, (ast.If, ast.While)):
        _test(draft, statement, around)
    for root in [statement.test] if isinstance(statement, (ast.If, ast.While)) else expressions(statement):
        stored = root if isinstance(statement, (ast.Assign, ast.AugAssign)) and root is not statement.value else None
        for node, inside in walk(root):
            draft.family = f"free {node.lineno} {node.col_offset} {node.end_col_offset}"
            if isinstance(node, ast.Subscript):
                for index in indices_of(node):
                    if not isinstance(index, ast.Slice):
                        _index(draft, statement, index, around)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
                _division(draft, statement, node, around)
            elif isinstance(node, ast.Compare) and len(node.ops) == 1:
                _comparison(draft, statement, node, around)
            if node is root and isinstance(node, ast.Constant):
                _gates(draft, statement, node, around)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                continue
            if isinstance(node, ast.Name) and (
                node.id in draft.scope.buffers or node.id in draft.scope.memory or node.id == "T"
            ):
                continue  # a tile, and no value
            if node is not stored and not inside and isinstance(node, (ast.BinOp, ast.Call, ast.Subscript, ast.Name)):
                _value(draft, statement, node, around)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        _index(draft, statement, statement.value, around)


def pairs(edits: Sequence[Edit]) -> list[Edit]:
    """Two usual edits of one statement at once, those first of which both come first."""
    of_statement: dict[tuple[int, int], list[Edit]] = defaultdict(list)
    for edit in edits:
        if edit.rare <= LESS_USUAL and not edit.file:
            of_statement[edit.line, edit.end].append(edit)
    found: list[tuple[int, Edit]] = []
    for (line, end), some in of_statement.items():
        turn = itertools.count()
        combined = sorted(itertools.combinations(range(len(some)), 2), key=sum)
        for one, other in itertools.islice(((some[a], some[b]) for a, b in combined), PAIRS):
            if _apart(one, other):
                kind = MOVABLE if MOVABLE in (one.kind, other.kind) else one.kind
                both = Edit(line, end, kind, f"{one.says} and {other.says}", (*one.changes, *other.changes), PAIRED)
                found.append((next(turn), both))
    return [edit for _, edit in sorted(found, key=lambda one: one[0])]


def _apart(one: Edit, other: Edit) -> bool:
    return all(a[1] <= b[0] or b[1] <= a[0] for a in one.changes for b in other.changes)


class _Around:
    """What a statement could use."""

    def __init__(self, draft: Draft, statement: ast.stmt, body: ast.With | ast.FunctionDef) -> None:
        scope = draft.scope
        inside = list(ast.walk(body))
        holding = [n for n in inside if isinstance(n, ast.For) and n.lineno < statement.lineno <= (n.end_lineno or 0)]
        loops = [name for loop in holding[::-1] for name in target_names(loop.target)]
        given = [one.arg for one in body.args.args] if isinstance(body, ast.FunctionDef) else []
        scalars = [
            name
            for node in inside
            if isinstance(node, ast.Assign) and node.lineno < statement.lineno
            for name in target_names(node)
            if name in scope.scalars
        ]
        #: names of what is computed for indices, which may lie outside
        self.indexing = [name for name in dict.fromkeys(reversed(scalars)) if name not in _computed(inside)][:NAMED]
        #: names of values, the nearest first
        self.values = [name for name in dict.fromkeys(reversed(scalars)) if name in _computed(inside)]
        self.counters = list(dict.fromkeys([*loops, *scope.blocks, *scalars, *given]))
        self.sizes = list(dict.fromkeys([*scope.sizes, *scalars, *given]))
        known = {*self.counters, *self.sizes, *scope.buffers, *scope.memory, "T"}

        def usable(nodes: Iterable[ast.expr]) -> list[str]:
            near = sorted((n for n in nodes if names_in(n) <= known), key=lambda n: abs(n.lineno - statement.lineno))
            return list(dict.fromkeys(draft.text.of(node) for node in near))

        loads = [
            n
            for n in inside
            if isinstance(n, ast.Subscript) and not any(isinstance(i, ast.Slice) for i in indices_of(n))
        ]
        self.loads = [*usable(loads)[:LOADS], *self._alike(draft, usable(loads))]
        self.indices = usable(index for load in loads for index in indices_of(load))[:INDICES]
        self.conditions = usable(n for n in inside if isinstance(n, ast.Compare))[:CONDITIONS]

    @staticmethod
    def _alike(draft: Draft, loads: Sequence[str]) -> list[str]:
        """The same elements of other buffers of the same shape, which have to do with each other."""
        shapes = {name: draft.text.of(call.args[0]) for name, call in draft.scope.buffers.items() if call.args}
        found = []
        for load in loads:
            name, bracket, indices = load.partition("[")
            found += [
                other + bracket + indices for other in shapes if other != name and shapes[other] == shapes.get(name)
            ]
        return [load for load in dict.fromkeys(found) if load not in loads][:LOADS]


def _computed(inside: Sequence[ast.AST]) -> set[str]:
    """Names of the statements that give a name to what is computed from elements or other such names, and no index alone."""
    found: set[str] = set()
    for node in inside:
        if isinstance(node, ast.Assign):
            parts = list(ast.walk(node.value))
            real = any(
                isinstance(n, ast.Subscript) or (isinstance(n, ast.Constant) and isinstance(n.value, float))
                for n in parts
            )
            if real or found & names_in(node.value):
                found.update(target_names(node))
    return found


def _index(draft: Draft, statement: ast.stmt, index: ast.expr, around: _Around) -> None:
    """What else an index may be: another one of the kernel, or one counter and one size put together."""
    old = draft.text.of(index)
    own = [name for name in around.counters if name in names_in(index)]
    others = [name for name in around.counters if name not in own]
    counted = list(dict.fromkeys([f"({old})", *own, *others]))[:COUNTERS]
    sizes = list(dict.fromkeys([*around.sizes[:SIZES], "2"]))
    for new in around.indices:
        draft.swap(statement, index, new, "offset", SYNTHETIC)
    for counter in counted:
        for size in sizes:
            for new in (
                f"{counter} // {size}", f"{counter} % {size}", f"{size} - 1 - {counter}", f"{counter} * {size}", f"{counter} - {size}"
            ):  # fmt: skip
                draft.swap(statement, index, new, "offset", SYNTHETIC)
        draft.swap(statement, index, f"{counter} + 1", "offset", SYNTHETIC)
    for one, size, other in itertools.product(own, sizes, around.counters[:COUNTERS]):
        if one != other:
            draft.swap(statement, index, f"{one} + {other} * {size}", "offset", SYNTHETIC)
    for name in others[:COUNTERS]:
        draft.swap(statement, index, f"({old}) + {name}", "offset", SYNTHETIC)
        draft.swap(statement, index, f"({old}) - {name}", "offset", SYNTHETIC)
    draft.swap(statement, index, f"T.max({old}, 0)", "bounds", SYNTHETIC)
    for size in sizes:
        draft.swap(statement, index, f"T.min({old}, {size} - 1)", "bounds", SYNTHETIC)
        draft.swap(statement, index, f"({old}) // {size}", "offset", SYNTHETIC)
    for new, size in itertools.product(around.indices[: INDICES // 2], sizes):
        draft.swap(statement, index, f"({new}) // {size}", "offset", SYNTHETIC)
        draft.swap(statement, index, f"({new}) % {size}", "offset", SYNTHETIC)


def _division(draft: Draft, statement: ast.stmt, node: ast.BinOp, around: _Around) -> None:
    """A quotient or a remainder, by any size."""
    old = held(node.left, draft.text.of(node.left))
    for size in around.sizes[: 2 * SIZES]:
        draft.swap(statement, node, f"{old} // {size}", "offset", SYNTHETIC)
        draft.swap(statement, node, f"{old} % {size}", "offset", SYNTHETIC)
    for name in around.counters[:COUNTERS]:
        for sign in "+-":
            draft.swap(statement, node.left, f"({draft.text.of(node.left)} {sign} {name})", "offset", SYNTHETIC)


def _comparison(draft: Draft, statement: ast.stmt, node: ast.Compare, around: _Around) -> None:
    """Something else that is compared: another counter, size, named value or element, in the place of either side."""
    left, right = node.left, node.comparators[0]
    old, against = held(left, draft.text.of(left)), held(right, draft.text.of(right))
    counters, sizes = around.counters[:COUNTERS], around.sizes[:SIZES]
    for other in dict.fromkeys([*sizes, *around.values, *around.loads, "0"]):
        for sign in COMPARISONS[type(node.ops[0])], "==", "<", ">=":
            draft.swap(statement, node, f"{old} {sign} {other}", "condition", SYNTHETIC)
    for load in around.loads:
        draft.swap(statement, node.left, load, "condition", SYNTHETIC)
    for counter in counters:
        draft.swap(statement, node, f"{counter} {COMPARISONS[type(node.ops[0])]} {against}", "condition", SYNTHETIC)
        for other in dict.fromkeys([*sizes, *around.loads]):
            for sign in ("==", "<"):
                draft.swap(statement, node, f"{counter} {sign} {other}", "condition", SYNTHETIC)


def _test(draft: Draft, statement: ast.If | ast.While, around: _Around) -> None:
    """Another condition, or one more."""
    old = draft.text.of(statement.test)
    for condition in _conditions(around, statement.test):
        draft.swap(statement, statement.test, condition, "condition", SYNTHETIC)
        draft.swap(statement, statement.test, f"({old}) and {condition}", "condition", SYNTHETIC)
        draft.swap(statement, statement.test, f"({old}) or {condition}", "condition", SYNTHETIC)


def _extents(draft: Draft, statement: ast.For, around: _Around) -> None:
    """How far a loop goes: to another size, or to so many tiles of one."""
    given = statement.iter.args if isinstance(statement.iter, ast.Call) else []
    sizes = around.sizes[: 2 * SIZES]
    for extent in given:
        for size in sizes:
            for new in (size, f"{size} + 1", f"{size} - 1"):
                draft.swap(statement, extent, new, "bounds", SYNTHETIC)
        for one, other in itertools.permutations(sizes[:SIZES], 2):
            draft.swap(statement, extent, f"T.ceildiv({one}, {other})", "bounds", SYNTHETIC)
            draft.swap(statement, extent, f"{one} - {other}", "bounds", SYNTHETIC)
            draft.swap(statement, extent, f"{one} // {other}", "bounds", SYNTHETIC)


def _gates(draft: Draft, statement: ast.stmt, node: ast.expr, around: _Around) -> None:
    """A value that counts only under a condition."""
    old = draft.text.of(node)
    for condition in _conditions(around, node):
        for other in ("0", '-T.infinity("float32")'):
            draft.swap(statement, node, f"T.if_then_else({condition}, {old}, {other})", "condition", SYNTHETIC)


def _value(draft: Draft, statement: ast.stmt, node: ast.expr, around: _Around) -> None:
    old = draft.text.of(node)
    for name in UNARY:
        draft.swap(statement, node, f"T.{name}({old})", "operator", SYNTHETIC)
    for new in (f"1.0 - ({old})", f"1.0 + ({old})", f"1.0 / ({old})", f"({old}) * ({old})", f"T.max({old}, 0)"):
        draft.swap(statement, node, new, "operator", SYNTHETIC)
    for bits in SIGNED:
        half, whole = 1 << (bits - 1), 1 << bits
        draft.swap(
            statement, node, f"T.if_then_else(({old}) >= {half}, ({old}) - {whole}, {old})", "operator", SYNTHETIC
        )
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.func, ast.Attribute):
        for name in UNARY:
            draft.swap(statement, node.func, f"T.{name}", "operator", SYNTHETIC)
        draft.swap(statement, node, f"({draft.text.of(node.args[0])})", "operator", SYNTHETIC)
    for new in _through_calls(draft, node):
        draft.swap(statement, node, new, "operator", SYNTHETIC)
    _gates(draft, statement, node, around)
    for factor in dict.fromkeys([*around.sizes[:SIZES], LOG2_E, "2.0"]):
        draft.swap(statement, node, f"(({old}) * {factor})", MOVABLE, SYNTHETIC)
        draft.swap(statement, node, f"(({old}) / {factor})", MOVABLE, SYNTHETIC)
    for other in around.values[:LOADS]:
        for sign in ("*", "+", "-", "/"):
            draft.swap(statement, node, f"(({old}) {sign} {other})", MOVABLE, SYNTHETIC)
    for other in [load for load in around.loads if load != old]:
        draft.swap(statement, node, other, "statement", SYNTHETIC)
        for sign in ("*", "+", "-", "/"):
            draft.swap(statement, node, f"(({old}) {sign} {other})", MOVABLE, SYNTHETIC)
        for sign in ("-", "/"):
            draft.swap(statement, node, f"({other} {sign} ({old}))", MOVABLE, SYNTHETIC)


def _through_calls(draft: Draft, node: ast.expr) -> Iterator[str]:
    """A factor, divisor or summand inside of a function instead of outside, and the other way round."""
    for one, other in ((0, 1), (1, 0)) if isinstance(node, ast.BinOp) else ():
        assert isinstance(node, ast.BinOp)
        sides = (node.left, node.right)
        call, rest = sides[one], held(sides[other], draft.text.of(sides[other]))
        sign = OPERATORS[type(node.op)]
        if isinstance(call, ast.Call) and len(call.args) == 1:
            inner = held(call.args[0], draft.text.of(call.args[0]))
            inside = f"{inner} {sign} {rest}" if one == 0 else f"{rest} {sign} {inner}"
            yield f"{draft.text.of(call.func)}({inside})"
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.BinOp):
        argument = node.args[0]
        left, right = (held(side, draft.text.of(side)) for side in (argument.left, argument.right))
        name, sign = draft.text.of(node.func), OPERATORS[type(argument.op)]
        yield f"({name}({left}) {sign} {right})"
        yield f"({left} {sign} {name}({right}))"


def _conditions(around: _Around, node: ast.expr) -> list[str]:
    """When a value may count: what other statements ask, only within a size, only in the first block or turn, or below the diagonal."""
    found = list(around.conditions)
    near = [name for name in around.counters if name in names_in(node)] or around.counters[:2]
    found += [f"{name} < {size}" for name in near[:3] for size in around.sizes[:SIZES]]
    found += [f"{name} == 0" for name in around.counters[:COUNTERS]]
    found += [f"({name} >= 0 and {name} < {size})" for name in around.indexing for size in around.sizes[:SIZES]]
    found += [f"{name} == {size} - 1" for name in near[:3] for size in around.sizes[:SIZES]]
    found += [f"{one} {sign} {other}" for one, other in itertools.pairwise(near[:3]) for sign in (">=", "<=", ">", "<")]
    return list(dict.fromkeys(found))
