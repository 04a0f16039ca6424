"""Edits of operators, comparisons, constants and signs. Pure."""

from __future__ import annotations

import ast

from triage.experiment.repairs.calls import LOG2_E, edit_call
from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, MOVABLE, RARE, USUAL
from triage.experiment.repairs.indices import (
    edit_by_definition,
    edit_for_another,
    edit_name,
    edit_of_another_size,
    edit_subscript,
    edit_unit,
)
from triage.experiment.repairs.scope import ALTERNATIVES
from triage.experiment.repairs.syntax import COMPARISONS, OPERATORS, called, held, walk

#: operators that stand in each other's place, and how usual that is in a value and in an index (None: makes no sense)
SWAPPED: dict[type[ast.operator], tuple[tuple[str, int, int | None], ...]] = {
    ast.Add: (("-", USUAL, USUAL),), ast.Sub: (("+", USUAL, USUAL),), ast.Mult: (("/", USUAL, None), ("+", LESS_USUAL, RARE)),
    ast.Div: (("*", USUAL, None),), ast.FloorDiv: (("%", LESS_USUAL, USUAL),), ast.Mod: (("//", LESS_USUAL, USUAL),),
    ast.BitAnd: (("|", RARE, RARE),), ast.BitOr: (("&", RARE, RARE),), ast.LShift: ((">>", LESS_USUAL, LESS_USUAL),),
    ast.RShift: (("<<", LESS_USUAL, LESS_USUAL),),
}  # fmt: skip
COMPARED: dict[type[ast.cmpop], tuple[tuple[str, int], ...]] = {
    ast.Lt: (("<=", USUAL), (">", LESS_USUAL), (">=", LESS_USUAL)), ast.LtE: (("<", USUAL), (">=", LESS_USUAL), (">", LESS_USUAL)),
    ast.Gt: ((">=", USUAL), ("<", LESS_USUAL), ("<=", LESS_USUAL)), ast.GtE: ((">", USUAL), ("<=", LESS_USUAL), ("<", LESS_USUAL)),
    ast.Eq: (("!=", LESS_USUAL),), ast.NotEq: (("==", LESS_USUAL),),
}  # fmt: skip

#: masks of bits that are counted from the lowest
MASKS = (0x1, 0x3, 0x7, 0xF, 0xFF, 0xFFFF)
#: … and such as take a field of that many bits out of a packed number, which may be signed
FIELDS = {0x3: 2, 0xF: 4, 0xFF: 8}
CHOICES = ("if_then_else", "Select")


def edit_expression(draft: Draft, statement: ast.stmt, root: ast.expr, bounds: bool = False) -> None:
    """All edits within one expression; `bounds` for one that says how far something goes, as an index does."""
    for node, inside in walk(root):
        index = inside or bounds
        draft.family = type(node).__name__ + (f" {node.col_offset}" if isinstance(node, ast.Constant) else "")
        if not index:
            _signed(draft, statement, node)
        if isinstance(node, ast.BinOp):
            _operator(draft, statement, node, index)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            _comparison(draft, statement, node)
        elif isinstance(node, ast.BoolOp):
            _boolean(draft, statement, node)
        elif isinstance(node, ast.Constant):
            _constant(draft, statement, node, index, bounds)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            draft.swap(statement, node, draft.text.of(node.operand), "operator")
        elif isinstance(node, ast.Subscript):
            edit_subscript(draft, statement, node)
        elif isinstance(node, ast.Call):
            edit_call(draft, statement, node)
            counts = [a for a in node.args if draft.scope.is_count(a)] if isinstance(node.func, ast.Name) else []
            for name in (n for argument in counts for n in ast.walk(argument) if isinstance(n, ast.Name)):
                edit_unit(draft, statement, name)  # an index that a macro or a helper is given
            _cast_terms(draft, statement, node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            edit_name(draft, statement, node, index)
            edit_by_definition(draft, statement, node)
            if index and not bounds:
                edit_unit(draft, statement, node)
            edit_of_another_size(draft, statement, node)
            if not index:
                edit_for_another(draft, statement, node)


def _operator(draft: Draft, statement: ast.stmt, node: ast.BinOp, index: bool) -> None:
    left, right = draft.text.of(node.left), draft.text.of(node.right)
    for symbol, in_value, in_index in SWAPPED.get(type(node.op), ()):
        grade = in_index if index else in_value
        if grade is not None:
            new = f"{held(node.left, left)} {symbol} {held(node.right, right)}"
            draft.swap(statement, node, new, "offset" if index else "operator", grade)
    if isinstance(node.op, (ast.Sub, ast.Div)) and not index:
        new = f"{held(node.right, right)} {OPERATORS[type(node.op)]} {held(node.left, left)}"
        draft.swap(statement, node, new, "operator", LESS_USUAL)
    if isinstance(node.op, ast.BitAnd) and isinstance(node.right, ast.Constant) and node.right.value in MASKS:
        for mask in (mask for mask in MASKS if mask != node.right.value):
            draft.swap(statement, node.right, hex(mask), "operator", LESS_USUAL)
    if isinstance(node.op, (ast.LShift, ast.RShift)) and not isinstance(node.right, ast.Constant):
        for width in (4, 8, 2):  # a shift counts bits, and what is counted may be nibbles, bytes or pairs
            draft.swap(statement, node.right, f"{width} * {held(node.right, right)}", "operator")
    if isinstance(node.op, ast.RShift):  # which copies the sign of a signed number
        draft.swap(statement, node.left, f'T.Cast("uint32", {left})', "data type", LESS_USUAL)
    if (
        isinstance(node.op, ast.Mult)
        and not index
        and all(isinstance(n, ast.Subscript) for n in (node.left, node.right))
    ):
        draft.swap(statement, node, f'T.cast({left}, "float32") * T.cast({right}, "float32")', "data type", LESS_USUAL)
    if isinstance(node.op, ast.Div) and not index and draft.scope.is_count(node.right):
        for new in (f"({right} - 1)", f"({right} + 1)"):  # of a sample, or one more that counts
            draft.swap(statement, node.right, new, "scale", LESS_USUAL)
    _brought_together(draft, statement, node)
    _left_out(draft, statement, node, index)
    _divisions(draft, statement, node, index)
    if isinstance(node.op, ast.Add):
        _inverted(draft, statement, node)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        _both_signs(draft, statement, node)
        _moved_in(draft, statement, node)


def _signed(draft: Draft, statement: ast.stmt, node: ast.expr) -> None:
    """A field of a packed number that is signed: its highest bit counts down. Of a choice between two, either is one."""
    if isinstance(node, ast.Call) and called(node) in CHOICES:
        widths = [_width_of_field(one) for one in node.args[1:]]
        width = widths[0] if widths and None not in widths else None
    else:
        width = _width_of_field(node)
    if width is not None:
        half = 1 << (width - 1)
        draft.swap(statement, node, f"((({draft.text.of(node)}) ^ {half}) - {half})", "data type", LESS_USUAL)


def _width_of_field(node: ast.expr) -> int | None:
    """How many bits `a & 0xF` or `byte >> 4` takes of a number; None for anything else."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.right, ast.Constant):
        return None
    if isinstance(node.op, ast.BitAnd):
        return FIELDS.get(node.right.value)  # type: ignore[arg-type]
    return 4 if isinstance(node.op, ast.RShift) and node.right.value == 4 else None


def _cast_terms(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """What is computed and then cast, cast before that: `T.cast(a * b, "float32")` has rounded, and may have overflowed, already."""
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "astype"
    value = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
    if not isinstance(value, ast.BinOp) or not (method or called(node) == "cast"):
        return
    rest = ", ".join(draft.text.of(one) for one in node.args[0 if method else 1 :])

    def cast(term: ast.expr) -> str:
        text = draft.text.of(term)
        if isinstance(term, ast.BinOp) and type(term.op) in OPERATORS:
            return f"({cast(term.left)} {OPERATORS[type(term.op)]} {cast(term.right)})"
        if isinstance(term, ast.Constant):
            return text
        return f"{held(term, text)}.astype({rest})" if method else f"{draft.text.of(node.func)}({text}, {rest})"

    draft.swap(statement, node, cast(value), "data type")


def _brought_together(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """`f(a, c) * f(b, c)` as `f(a * b, c)`; `calls` has the other direction."""
    one, other = node.left, node.right
    if not (isinstance(one, ast.Call) and isinstance(other, ast.Call) and one.args and other.args):
        return
    function, rest = draft.text.of(one.func), [draft.text.of(argument) for argument in one.args[1:]]
    if function == draft.text.of(other.func) and rest == [draft.text.of(argument) for argument in other.args[1:]]:
        first, second = (held(call.args[0], draft.text.of(call.args[0])) for call in (one, other))
        inner = ", ".join([f"{first} {OPERATORS[type(node.op)]} {second}", *rest])
        draft.swap(statement, node, f"{function}({inner})", "operator", LESS_USUAL)


def _left_out(draft: Draft, statement: ast.stmt, node: ast.BinOp, index: bool) -> None:
    """One operand alone. Of a value, what is too much here may as well be missing elsewhere."""
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)):
        draft.family = "left out"
        kind = "offset" if index else MOVABLE
        grade = RARE if index and isinstance(node.op, ast.Mult) else LESS_USUAL
        draft.swap(statement, node, f"({draft.text.of(node.left)})", kind, grade)
        if not isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)):
            draft.swap(statement, node, f"({draft.text.of(node.right)})", kind, grade)


def _divisions(draft: Draft, statement: ast.stmt, node: ast.BinOp, index: bool) -> None:
    """Rounded up; by more than one size; by how often a size goes into another."""
    draft.family = "division"
    if isinstance(node.op, ast.FloorDiv) and index:
        new = f"T.ceildiv({draft.text.of(node.left)}, {draft.text.of(node.right)})"
        draft.swap(statement, node, new, "bounds")
    if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and isinstance(node.right, ast.Name):
        left, right = held(node.left, draft.text.of(node.left)), node.right.id
        for size in draft.scope.alike(right, statement):
            draft.swap(statement, node.right, f"({size} * {right})", "offset", LESS_USUAL)
            draft.swap(statement, node, f"{left} // ({size} // {right})", "offset", RARE)


def _inverted(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """`x % a * b + x // a` as `x % b * a + x // b`: places that are exchanged the other way round, from packed to plain."""
    draft.family = "inverted"
    for times, quotient in ((node.left, node.right), (node.right, node.left)):
        if not (isinstance(times, ast.BinOp) and isinstance(times.op, ast.Mult)):
            continue
        for rest, factor in ((times.left, times.right), (times.right, times.left)):
            parts = (rest, ast.Mod), (quotient, ast.FloorDiv)
            if all(isinstance(part, ast.BinOp) and isinstance(part.op, kind) for part, kind in parts):
                x, a, other_x, other_a = (draft.text.of(p) for part, _ in parts for p in (part.left, part.right))  # type: ignore[attr-defined]
                b = held(factor, draft.text.of(factor))
                if (x, a) == (other_x, other_a) and a != b:
                    x, a = held(rest.left, x), held(rest.right, a)  # type: ignore[attr-defined]
                    draft.swap(statement, node, f"({x} % {b} * {a} + {x} // {b})", "index", LESS_USUAL)


def _both_signs(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """`a + b - c` as `a - b + c`."""
    inner = node.left
    signs = {ast.Add: "-", ast.Sub: "+"}
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, (ast.Add, ast.Sub)):
        first, second, third = (draft.text.of(part) for part in (inner.left, inner.right, node.right))
        second, third = held(inner.right, second), held(node.right, third)
        new = f"{first} {signs[type(inner.op)]} {second} {signs[type(node.op)]} {third}"
        draft.swap(statement, node, new, "offset", LESS_USUAL)


def _moved_in(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """`f(a) + b` as `f(a + b)`; `calls` has the other direction."""
    if isinstance(node.left, ast.Call) and len(node.left.args) == 1 and not node.left.keywords:
        function, argument = draft.text.of(node.left.func), draft.text.of(node.left.args[0])
        new = f"{function}({argument} {OPERATORS[type(node.op)]} {draft.text.of(node.right)})"
        draft.swap(statement, node, new, "operator")


def _comparison(draft: Draft, statement: ast.stmt, node: ast.Compare) -> None:
    left, right = draft.text.of(node.left), draft.text.of(node.comparators[0])
    for symbol, grade in COMPARED.get(type(node.ops[0]), ()):
        draft.swap(statement, node, f"{left} {symbol} {right}", "condition", grade)
    symbol = COMPARISONS.get(type(node.ops[0]), "")
    if symbol in ("<", ">="):  # of whole numbers, `<` with one more is `<=`, which is tried anyway
        draft.swap(statement, node, f"{left} {symbol} ({right}) - 1", "condition", RARE)
    elif symbol in ("<=", ">"):
        draft.swap(statement, node, f"{left} {symbol} ({right}) + 1", "condition", RARE)


def _boolean(draft: Draft, statement: ast.stmt, node: ast.BoolOp) -> None:
    values = [draft.text.of(value) for value in node.values]
    word, other = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
    for number in range(len(values)):
        rest = values[:number] + values[number + 1 :]
        draft.swap(statement, node, f"({word.join(rest)})", "condition", LESS_USUAL)
    draft.swap(statement, node, f"({other.join(values)})", "condition", LESS_USUAL)


def _constant(draft: Draft, statement: ast.stmt, node: ast.Constant, index: bool, bounds: bool) -> None:
    value = node.value
    if isinstance(value, bool):
        draft.swap(statement, node, str(not value), "transposition")
    elif isinstance(value, int):
        kind = "index" if index else "initial value" if value in (0, 1) else "operator"
        if index and value == 1 and not bounds:  # a step of one, where the step is a size
            for size in draft.scope.given[:ALTERNATIVES]:
                draft.swap(statement, node, size, "offset", LESS_USUAL)
        if not bounds:  # a bound one further or nearer is tried as a whole
            for new in (value + 1, value - 1):
                if new >= 0 or not index:
                    draft.swap(statement, node, str(new), kind, LESS_USUAL)
        for new in sorted({2 * value, value // 2} - {value, value + 1, value - 1}):
            draft.swap(statement, node, str(new), kind, RARE)
    elif isinstance(value, float):
        _factor(draft, statement, node, value)


def _factor(draft: Draft, statement: ast.stmt, node: ast.Constant, value: float) -> None:
    if value:
        draft.swap(statement, node, f"1.0 / ({value!r})", "scale")
        draft.swap(statement, node, f"({value!r}) * {LOG2_E}", MOVABLE, LESS_USUAL)
    if value not in (0.0, 1.0):
        for new in (f"({value!r}) ** 0.5", f"({value!r}) ** 2"):
            draft.swap(statement, node, new, "scale", LESS_USUAL)
    for other in [other for other in draft.scope.numbers if other != value and (abs(other) >= 1) == (abs(value) >= 1)][
        :3
    ]:
        draft.swap(statement, node, repr(other), "scale", LESS_USUAL)
    for new in (f"{2 * value!r}", f"{value / 2!r}") if value not in (0.0, 1.0) else ():
        draft.swap(statement, node, new, "scale", RARE)
    for new in (new for new in ("1.0", "0.0", f"-({value!r})") if new != repr(value)):
        draft.swap(statement, node, new, MOVABLE, LESS_USUAL)
    if value == 0.0:
        draft.swap(statement, node, '-T.infinity("float32")', "initial value")
