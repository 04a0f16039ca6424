"""Edits of what a kernel calls: another function, flag, argument, type or initial value. Pure."""

from __future__ import annotations

import ast

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, MOVABLE, RARE, USUAL
from triage.experiment.repairs.scope import likeness
from triage.experiment.repairs.syntax import OPERATORS, called, names_in

#: what a function is taken for, by its last name: first what is, often
SWAPPED = {
    "exp": ("exp2",), "exp2": ("exp",), "log": ("log2",), "log2": ("log",), "max": ("min",), "min": ("max",),
    "sqrt": ("rsqrt",), "rsqrt": ("sqrt",), "floor": ("round", "ceil"), "ceil": ("floor",), "round": ("floor",), "sin": ("cos",), "cos": ("sin",),
    "reduce_max": ("reduce_absmax", "reduce_min", "reduce_sum"), "reduce_min": ("reduce_max",), "reduce_sum": ("reduce_abssum", "reduce_max"),
    "reduce_absmax": ("reduce_max",), "reduce_abssum": ("reduce_sum",), "atomic_add": ("atomic_max", "atomic_min"), "atomic_max": ("atomic_min", "atomic_add"),
    "atomic_min": ("atomic_max", "atomic_add"), "floordiv": ("ceildiv",), "ceildiv": ("floordiv",), "cumsum": ("cummax",), "cummax": ("cumsum",),
}  # fmt: skip
#: base-2 exponentials want their argument in this unit
LOG2_E = "1.4426950408889634"
#: … and logarithms to base 2 give it in this one
LN_2 = "0.6931471805599453"
REGISTERS = ("alloc_fragment", "alloc_local", "alloc_var")
#: what a value is accumulated in that should not lose any of it
WIDE = '"float32"'
NARROW = {"int8": ('"int32"',), "int16": ('"int32"',), "uint8": ('"int32"',)}
#: masks that take a narrow integer out of a word, and the zero of one that is stored without a sign
ZEROS = {0x3: 2, 0xF: 8, 0xFF: 128}


def edit_call(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """All edits of one call; its arguments are expressions of their own."""
    name = called(node)
    _other_function(draft, statement, node, name)
    if name in ("exp", "exp2") and node.args:
        old = draft.text.of(node.args[0])
        lost, extra = (f"({old}) * {LOG2_E}", f"({old}) / {LOG2_E}")
        draft.swap(statement, node.args[0], lost, MOVABLE, USUAL if name == "exp2" else RARE)
        draft.swap(statement, node.args[0], extra, MOVABLE, LESS_USUAL if name == "exp" else RARE)
        draft.swap(statement, node.args[0], f"-({old})", MOVABLE, LESS_USUAL)
    if name in ("log", "log2"):
        unit = LOG2_E if name == "log" else LN_2
        draft.swap(statement, node, f"({draft.text.of(node)} * {unit})", MOVABLE, LESS_USUAL)
    if name in ("clear", "fill"):
        _initial(draft, statement, node)
    if name == "gemm":
        _keywords(draft, statement, node, ("transpose_A", "transpose_B"), "transposition", "True")
        _other_operand(draft, statement, node)
        _keywords(draft, statement, node, ("clear_accum",), "initial value", "True")
    if name.startswith("reduce_"):
        _keywords(draft, statement, node, ("clear",), "initial value", "False")
        _axis(draft, statement, node)
    if name.startswith("alloc_"):
        _allocated(draft, statement, node, name)
    if name in ("copy", "gemm") or name.startswith("reduce_"):
        _other_buffers(draft, statement, node)
    if name == "copy":
        _backwards(draft, statement, node)
    if name in ("cast", "astype"):
        _cast(draft, statement, node)
    if name in ("if_then_else", "Select") and len(node.args) == 3:
        _choice(draft, statement, node)
    _moved_out(draft, statement, node)


def _other_function(draft: Draft, statement: ast.stmt, node: ast.Call, name: str) -> None:
    if not isinstance(node.func, ast.Attribute):
        return
    package = draft.text.of(node.func).rpartition(".")[0]
    kind = "reduction" if name.startswith(("reduce", "cum", "atomic")) else "operator"
    if name in ("exp", "exp2") and any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) for n in ast.walk(node)):
        kind = MOVABLE  # the unit may be missing in what it is multiplied with
    for number, other in enumerate(SWAPPED.get(name, ())):
        grade = USUAL if number == 0 else LESS_USUAL
        change = draft.text.replaced(node.func, f"{package}.{other}")
        draft.add(statement, kind, f"`{other}` for `{name}`", change, rare=grade)


def _initial(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """Another initial value of a buffer."""
    if not node.args:
        return
    buffer = draft.text.of(node.args[0])
    allocation = draft.scope.buffers.get(buffer)
    dtype = draft.text.of(allocation.args[1]) if allocation is not None and len(allocation.args) > 1 else WIDE
    package = draft.text.of(node.func).rpartition(".")[0]
    for value, grade in (
        ("0", USUAL),
        (f"-T.infinity({dtype})", USUAL),
        (f"T.infinity({dtype})", LESS_USUAL),
        ("1", LESS_USUAL),
    ):
        draft.swap(statement, node, f"{package}.fill({buffer}, {value})", "initial value", grade)


def _keywords(draft: Draft, statement: ast.stmt, node: ast.Call, words: tuple[str, ...], kind: str, value: str) -> None:
    """A flag that the call does not set."""
    end = draft.text.span(node)[1] - 1
    comma = "" if draft.text.source[:end].rstrip().endswith(("(", ",")) else ", "
    for word in words:
        if word not in {keyword.arg for keyword in node.keywords}:
            draft.add(statement, kind, f"with `{word}={value}`", (end, end, f"{comma}{word}={value}"))


def _other_operand(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """The flag of one operand for that of the other."""
    flags = {keyword.arg: keyword for keyword in node.keywords}
    for word, other in (("transpose_A", "transpose_B"), ("transpose_B", "transpose_A")):
        if word in flags and other not in flags:
            draft.swap(statement, flags[word], f"{other}={draft.text.of(flags[word].value)}", "transposition")


def _axis(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    for argument in [*node.args[2:3], *(k.value for k in node.keywords if k.arg == "dim")]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, int):
            draft.swap(statement, argument, str(1 - min(argument.value, 1)), "reduction")


def _allocated(draft: Draft, statement: ast.stmt, node: ast.Call, name: str) -> None:
    """A wider type for registers, where values are accumulated, and more rarely for tiles."""
    for argument in [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "dtype")]:
        narrow = argument.value if isinstance(argument, ast.Constant) else None
        grade = USUAL if name in REGISTERS else LESS_USUAL
        for wide in NARROW.get(str(narrow), (WIDE,)):
            draft.swap(statement, argument, wide, "data type", grade)


def _other_buffers(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """Another buffer of the same shape in the place of an argument, the likest names of the same type first."""
    draft.family = "buffer"
    for argument in (a for a in node.args if isinstance(a, ast.Name)):
        own = draft.scope.buffers.get(argument.id)
        if own is None or not own.args:
            continue
        said = [draft.text.of(part) for part in own.args]
        others = {name: [draft.text.of(part) for part in call.args] for name, call in draft.scope.buffers.items()}
        alike = [name for name, parts in others.items() if name != argument.id and parts[:1] == said[:1]]
        alike.sort(key=lambda name: (others[name] != said, -likeness(name, argument.id)))
        for number, name in enumerate(alike):
            grade = LESS_USUAL if number < 2 and others[name] == said else RARE
            draft.swap(statement, argument, name, "statement", grade)


def _backwards(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """A copy the other way round, or one that should add to what other blocks have stored."""
    stores = len(node.args) == 2 and isinstance(node.args[1], ast.Subscript)
    if stores and names_in(node.args[1]) & draft.scope.memory.keys():
        source, target = (draft.text.of(argument) for argument in node.args)
        package = draft.text.of(node.func).rpartition(".")[0]
        draft.swap(statement, node, f"{package}.atomic_add({target}, {source})", "reduction", LESS_USUAL)
    if len(node.args) == 2 and all(isinstance(argument, ast.Name) for argument in node.args):
        draft.exchange(statement, node.args[0], node.args[1], "statement", RARE)


def _cast(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """Another type; rounded before it is made whole; a stored integer with its zero taken off."""
    if not node.args:
        return
    dtype, value = node.args[-1], node.args[0]
    for new in (WIDE, '"int32"'):
        draft.swap(statement, dtype, new, "data type", LESS_USUAL)
    if called(node) == "cast" and len(node.args) == 2:
        old = draft.text.of(value)
        if "int" in draft.text.of(dtype):
            for function in ("round", "floor"):  # it goes towards zero by itself
                draft.swap(statement, value, f"T.{function}({old})", "operator")
        else:
            for zero in _zeros(draft):
                draft.swap(statement, value, f"({old}) - {zero}", MOVABLE, LESS_USUAL)


def _zeros(draft: Draft) -> list[int]:
    """What would have to be taken off the narrow integers that the kernel takes out of words."""
    masks = {n.value for n in ast.walk(draft.scope.function) if isinstance(n, ast.Constant) and type(n.value) is int}
    return [zero for mask, zero in ZEROS.items() if mask in masks]


def _choice(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    condition, one, other = node.args
    draft.exchange(statement, one, other, "condition")
    draft.swap(statement, node, f"({draft.text.of(one)})", "condition", LESS_USUAL)
    draft.swap(statement, condition, f"T.Not({draft.text.of(condition)})", "condition", RARE)
    for value in ('-T.infinity("float32")', "0"):
        draft.swap(statement, other, value, "initial value")


def _moved_out(draft: Draft, statement: ast.stmt, node: ast.Call) -> None:
    """`f(a + b)` as `f(a) + b`; as `f(a) + f(b)`, also where `f` is a limit: `max(a * b, 0)` as `max(a, 0) * max(b, 0)`; `rsqrt(a + b)` as
    `1 / (sqrt(a) + b)`."""
    inner = node.args[0] if node.args else None
    if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        return
    function, left, right = (draft.text.of(part) for part in (node.func, inner.left, inner.right))
    sign, sums = OPERATORS[type(inner.op)], isinstance(inner.op, (ast.Add, ast.Sub))
    rest = "".join(f", {draft.text.of(argument)}" for argument in node.args[1:])
    if len(node.args) == 1 and sums:
        draft.swap(statement, node, f"({function}({left}) {sign} {right})", "operator", LESS_USUAL)
    if called(node) == "rsqrt" and sums:
        sqrt = f"{function.removesuffix('rsqrt')}sqrt({left})"
        draft.swap(statement, node, f"(1.0 / ({sqrt} {sign} {right}))", "operator", LESS_USUAL)
    if len(node.args) == 1 or called(node) in ("max", "min"):
        new = f"({function}({left}{rest}) {sign} {function}({right}{rest}))"
        draft.swap(statement, node, new, "operator", LESS_USUAL)
