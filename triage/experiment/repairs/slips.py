"""Slips of a few kinds that come with how a kernel came to be: taps in reverse, rounding by a half, rows of a tile that span two groups,
a term that each of several blocks adds. Pure."""

from __future__ import annotations

import ast
import itertools

from triage.experiment.repairs.donors import Donors, rank
from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, MOVABLE, RARE
from triage.experiment.repairs.scope import ALTERNATIVES
from triage.experiment.repairs.syntax import OPERATORS, called, held, indices_of, names_in, operation, terms_of, walk

#: so many other sizes are tried in the place of one
SIZES = 8


def edit_slips(draft: Draft, statement: ast.stmt, donors: Donors, roots: list[ast.expr]) -> None:
    """All edits of these kinds in the expressions of a statement."""
    for root in roots:
        for node, index in walk(root):
            if isinstance(node, ast.Subscript):
                for one in indices_of(node):
                    _reversed(draft, statement, one)
                    _with_lane(draft, statement, donors, one)
            elif isinstance(node, ast.BinOp):
                _rounded(draft, statement, node)
                _other_part(draft, statement, donors, node)
                _taken_in(draft, statement, node, index)
                _pushed_in(draft, statement, node)
                if not index:
                    _one_off(draft, statement, node)
                    _of_count(draft, statement, donors, node)
            elif isinstance(node, ast.Call):
                _doubled(draft, statement, node)
            elif isinstance(node, ast.Name):
                _looked_up(draft, statement, donors, node)
                _narrowed(draft, statement, donors, node)
            elif isinstance(node, ast.Compare):
                _by_place(draft, statement, donors, node)
    _once(draft, statement)
    _exclusive(draft, statement)


def _rounded(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """`x + 0.5`, which a cast to whole numbers cuts towards zero, as a number rounded."""
    draft.family = "rounded"
    sides = ((node.left, node.right), (node.right, node.left))
    for value, half in sides if isinstance(node.op, (ast.Add, ast.Sub)) else ():
        if isinstance(half, ast.Constant) and half.value == 0.5:
            draft.swap(statement, node, f"T.round({draft.text.of(value)})", "operator", LESS_USUAL)
            draft.swap(statement, node, f"T.floor({draft.text.of(node)})", "operator", RARE)


def _doubled(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """Twice or half the argument of an exponential: `1 + tanh(u)` is twice the logistic function of twice `u`."""
    draft.family = "doubled"
    if called(node) in ("exp", "exp2", "tanh", "sigmoid") and len(node.args) == 1:
        for factor in ("2.0", "0.5"):
            new = f"{factor} * ({draft.text.of(node.args[0])})"
            draft.swap(statement, node.args[0], new, MOVABLE, LESS_USUAL)


def _reversed(draft: Draft, statement: ast.stmt, index: ast.expr) -> None:
    """A counter that goes the other way: `t + n - 1 - k` as `t + k`, and back."""
    draft.family = "reversed"
    if isinstance(index, ast.Slice):
        return
    terms = [(sign, draft.text.of(term)) for sign, term in terms_of(index)]
    for loop in draft.scope.serial_loops(statement):
        if not (isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call) and len(loop.iter.args) == 1):
            continue
        name, length = loop.target.id, draft.text.of(loop.iter.args[0])
        down, up = ("-", name), ("+", name)
        rest = [term for term in terms if term not in (down, up, ("+", length), ("-", "1"))]
        if down in terms and ("+", length) in terms and ("-", "1") in terms:
            draft.swap(statement, index, _sum([*rest, up]), "offset", LESS_USUAL)
        elif up in terms:
            turned = [*[term for term in terms if term != up], ("+", f"({length} - 1 - {name})")]
            draft.swap(statement, index, _sum(turned), "offset", LESS_USUAL)


def _sum(terms: list[tuple[str, str]]) -> str:
    text = " ".join(f"{sign} {term}" for sign, term in terms)
    return text.removeprefix("+ ")


def _with_lane(draft: Draft, statement: ast.stmt, donors: Donors, index: ast.expr) -> None:
    """Of which group an element is, and not the first of its tile: `b * rows // n` as `(b * rows + i) // n`."""
    draft.family = "lane"
    around = [name for loop in draft.scope.loops(statement) for name in names_in(loop.target) & donors.lanes]
    for node in (n for n in ast.walk(index) if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.FloorDiv, ast.Mod))):
        start = node.left
        if isinstance(start, (ast.BinOp, ast.Name)) and not names_in(start) & donors.lanes:
            for lane in around:
                draft.swap(statement, start, f"({draft.text.of(start)} + {lane})", "index", LESS_USUAL)


def _other_part(draft: Draft, statement: ast.stmt, donors: Donors, node: ast.BinOp) -> None:
    """Of a number that is two, the other one: `r % S` as `r // H`, by what is said of it elsewhere or by another size."""
    draft.family = "part"
    if not isinstance(node.op, (ast.FloorDiv, ast.Mod)):
        return
    own, left = draft.text.of(node), draft.text.of(node.left)
    for part in donors.wholes.get(left, []):
        other = part.node
        divides = isinstance(other, ast.BinOp) and isinstance(other.op, (ast.FloorDiv, ast.Mod))
        same = divides and draft.text.of(other.left) == left and part.text != own  # type: ignore[attr-defined]
        if same and donors.available(part.names, statement):
            draft.swap(statement, node, f"({part.text})", "index", LESS_USUAL)
    sign = "%" if isinstance(node.op, ast.FloorDiv) else "//"
    if isinstance(node.right, ast.Name):
        others = [size for size in draft.scope.sizes if size not in names_in(node)]
        for size in others[:SIZES]:
            draft.swap(statement, node, f"({held(node.left, left)} {sign} {size})", "index", RARE)


def _looked_up(draft: Draft, statement: ast.stmt, donors: Donors, node: ast.Name) -> None:
    """What a table holds for a counter, in the place of the counter: the block that a list names, and not where in the list it stands."""
    draft.family = "looked up"
    for name in draft.scope.scalars if node.id in draft.scope.counters else ():
        value = draft.scope.definition(name, statement)
        if (
            isinstance(value, ast.Subscript)
            and node.id in names_in(value.slice)
            and donors.available([name], statement)
        ):
            draft.swap(statement, node, name, "index", LESS_USUAL)


def _narrowed(draft: Draft, statement: ast.stmt, donors: Donors, node: ast.Name) -> None:
    """What was made of a value, in the place of the value: the end of a split, which is at most the length, and not the length."""
    draft.family = "narrowed"
    for name in draft.scope.scalars:
        value = draft.scope.definition(name, statement) if name != node.id else None
        made = isinstance(value, ast.BinOp) or (isinstance(value, ast.Call) and called(value) in ("min", "max"))
        if made and value is not None and node.id in names_in(value) and donors.available([name], statement):
            draft.swap(statement, node, name, "bounds", LESS_USUAL)


def _pushed_in(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """`min(max(x, a), b) + c` as `min(max(x + c, a), b)`: what is limited is the sum, or the product."""
    draft.family = "pushed in"
    inner: ast.expr = node.left
    while isinstance(inner, ast.Call) and called(inner) in ("min", "max", "clamp") and inner.args:
        inner = inner.args[0]
    if inner is not node.left and type(node.op) in OPERATORS:
        text, whole = draft.text.of(inner), draft.text.of(node.left)
        grown = f"{held(inner, text)} {OPERATORS[type(node.op)]} {held(node.right, draft.text.of(node.right))}"
        draft.swap(statement, node, whole.replace(text, grown, 1), "operator", LESS_USUAL)


def _of_count(draft: Draft, statement: ast.stmt, donors: Donors, node: ast.BinOp) -> None:
    """A product that counts once, times how many there are: what a formula for one element leaves out for a tile of them."""
    draft.family = "count"
    if not isinstance(node.op, ast.Mult) or draft.scope.is_count(node):
        return
    for count in donors.counts_of_elements[:SIZES]:
        if donors.available(count.names, statement) and count.text not in draft.text.of(node):
            draft.swap(statement, node, f"{draft.text.of(node)} * ({count.text})", MOVABLE, LESS_USUAL)


def _exclusive(draft: Draft, statement: ast.stmt) -> None:
    """A running sum without what was added last: how many come before an element, and not how many up to it."""
    draft.family = "exclusive"
    added = {
        draft.text.of(one.targets[0]): one.value.right
        for body in draft.scope.bodies
        for one in ast.walk(body)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.BinOp) and isinstance(one.value.op, ast.Add)
        and draft.text.of(one.value.left) == draft.text.of(one.targets[0]) and isinstance(one.value.right, ast.Subscript)
    }  # fmt: skip
    value = statement.value if isinstance(statement, ast.Assign) else None
    loads = [n for n in ast.walk(value) if isinstance(n, ast.Subscript)] if value is not None else []
    for node in (n for n in loads if draft.text.of(n) in added and n is not added[draft.text.of(n)]):
        last = added[draft.text.of(node)]
        found = [draft.text.of(n) for n in loads if n is not node] + _whole_elements(draft)
        for place in dict.fromkeys([draft.text.of(last.slice), *found]):
            new = f"({draft.text.of(node)} - {draft.text.of(last.value)}[{place}])"
            if place != draft.text.of(node):
                draft.swap(statement, node, new, "offset", LESS_USUAL)


def _whole_elements(draft: Draft) -> list[str]:
    """The elements of memory for one whole number, such as a digit or a position that was found."""
    single = [
        name for name, made in draft.scope.buffers.items()
        if len(made.args) > 1 and draft.text.of(made.args[0]).replace(" ", "") == "(1,)" and "int" in draft.text.of(made.args[1])
    ]  # fmt: skip
    return [f"{name}[0]" for name in single]


def _taken_in(draft: Draft, statement: ast.stmt, node: ast.BinOp, index: bool) -> None:
    """`sqrt(v) / b` as `sqrt(v / b)`, and the same of products."""
    draft.family = "taken in"
    if index or not isinstance(node.op, (ast.Mult, ast.Div)):
        return
    for call, rest in ((node.left, node.right), *([(node.right, node.left)] if isinstance(node.op, ast.Mult) else [])):
        if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords and called(call) != "Cast":
            inner, other = held(call.args[0], draft.text.of(call.args[0])), held(rest, draft.text.of(rest))
            new = f"{draft.text.of(call.func)}({inner} {OPERATORS[type(node.op)]} {other})"
            draft.swap(statement, node, new, "operator", LESS_USUAL)


def _one_off(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """A count in a value that is one too many or too few: the steps from a row to the end of a chunk."""
    draft.family = "one off"
    counts = isinstance(node.op, (ast.Add, ast.Sub)) and draft.scope.is_count(node)
    if counts and names_in(node) & {*draft.scope.counters}:
        for sign in "-+":
            draft.swap(statement, node, f"({draft.text.of(node)} {sign} 1)", "offset", LESS_USUAL)


def _by_place(draft: Draft, statement: ast.stmt, donors: Donors, node: ast.Compare) -> None:
    """The element at a place that was found, and not all that are as large: of equal ones only one was taken."""
    draft.family = "place"
    left, right = node.left, node.comparators[0]
    if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return
    if not (isinstance(left, ast.Subscript) and isinstance(right, ast.Subscript)) or rank(left) <= rank(right):
        return
    lanes = [name for one in indices_of(left) for name in names_in(one) if name in donors.lanes - names_in(right)]
    places = [name for name in donors.rows if name != draft.text.of(right.value)]
    sign = "==" if isinstance(node.ops[0], ast.Eq) else "!="
    for lane, row in itertools.product(lanes[-1:], places[:ALTERNATIVES]):
        new = f'T.cast({lane}, "int32") {sign} T.cast({row}[{draft.text.of(right.slice)}], "int32")'
        draft.swap(statement, node, new, "condition", LESS_USUAL)


def _once(draft: Draft, statement: ast.stmt) -> None:
    """A term that each of several blocks adds to the same element, added by the first of them."""
    draft.family = "once"
    call = operation(statement)
    if call is None or called(call) != "atomic_add" or len(call.args) < 2:
        return
    blocks = [name for name in draft.scope.blocks if name not in names_in(call.args[0])]
    for block, (_, term) in itertools.product(blocks, terms_of(call.args[1])):
        draft.swap(statement, term, f"T.if_then_else({block} == 0, {draft.text.of(term)}, 0)", "condition", LESS_USUAL)
