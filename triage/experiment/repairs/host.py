"""Edits of what stands around the kernels: the call, the reference, and what PyTorch makes of the result. Pure.

Values cannot say on which side of a comparison the fault is. If a usual slip outside of the kernel explains the difference as well as one
in it, no statement of the kernel is accused. So these edits are tried against a kernel's, and never suggested.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from triage.experiment.repairs.edit import Change, Edit
from triage.experiment.repairs.syntax import OF_NUMBERS, OPERATORS, called, held, launches
from triage.experiment.repairs.text import Text

KIND = "outside"
#: statements of which only the condition is read
CONDITIONS = (ast.If, ast.While)
#: functions and methods of PyTorch that are taken for each other
SWAPPED = {
    "exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log", "tril": "triu", "triu": "tril", "amax": "amin", "amin": "amax", "max": "min", "min": "max",
    "maximum": "minimum", "minimum": "maximum",
    "sum": "mean", "mean": "sum", "sqrt": "rsqrt", "rsqrt": "sqrt", "sin": "cos", "cos": "sin", "softmax": "log_softmax", "log_softmax": "softmax",
    "cumsum": "cumprod", "argmax": "argmin", "argmin": "argmax", "floor": "round", "round": "floor", "repeat": "repeat_interleave", "repeat_interleave": "repeat",
}  # fmt: skip
#: parameters that say along which axis, or from which diagonal
AXES = ("dim", "axis", "diagonal", "dims", "k", "ddof", "correction")
#: functions whose whole numbers are such parameters
ALONG = {
    "sum", "mean", "amax", "amin", "max", "min", "softmax", "log_softmax", "cumsum", "argmax", "argmin", "tril", "triu", "unsqueeze", "var", "norm",
}  # fmt: skip
#: functions of random tensors start like this: what a script hands to both sides, which says nothing of either
RANDOM = ("rand", "normal", "uniform", "bernoulli", "multinomial", "exponential")
TURNED = ("t", "mT", "T")
SIGNS: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
#: calls that answer whether their operands agree
COMPARING = ("allclose", "equal", "array_equal", "isclose")
#: what moves elements one way or the other, by a number
SHIFTING = ("roll", "rot90")
#: flags that leave the values alone
HARMLESS = ("keepdim", "keepdims", "equal_nan", "requires_grad", "pin_memory", "non_blocking", "copy", "sparse", "out")
#: flags of functions that change what they compute, with the other value than they have without it
FLAGS = {
    "var": ("unbiased=False", "ddof=1"), "std": ("unbiased=False", "ddof=1"), "var_mean": ("unbiased=False",), "sort": ("descending=True",),
    "argsort": ("descending=True",), "topk": ("largest=False",), "searchsorted": ("right=True", 'side="right"'), "bucketize": ("right=True",),
    "digitize": ("right=True",),
}  # fmt: skip
#: what makes whole numbers of real ones, by cutting off
WHOLE = ("int", "long", "short", "astype", "to", "type")
#: so many other tensors may have been meant in a comparison
OTHERS = 4
BOUNDS: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


def host_edits(source: str, file: str = "") -> list[Edit]:
    """The edits outside of kernels and of what these read from the functions around them. Sizes, seeds, tolerances and random inputs stay, and so
    do conditions and errors that the script computes itself, but for what they compare: changed, they would hide a difference and not
    explain it. `file` is the module of the source, if that is not the script. Empty where the source does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    text = Text(source)
    found: dict[tuple[Change, ...], Edit] = {}
    related, looped = _related(tree), _looped(tree)

    def add(node: ast.stmt | ast.expr, says: str, changes: tuple[Change, ...]) -> None:
        found.setdefault(changes, Edit(node.lineno, node.end_lineno or node.lineno, KIND, says, changes, file=file))

    for statement in _statements(tree):
        whole = statement.test if isinstance(statement, CONDITIONS) else statement
        near = related.get(id(statement), {})
        for part in _open(whole):
            for says, changes in (*_changes(text, part), *_other_tensors(text, whole, part, near)):
                add(whole, says, changes)
        for says, changes in _emptied(text, statement) if id(statement) in looped else ():
            add(statement, says, changes)
    return list(found.values())


def _looped(tree: ast.Module) -> set[int]:
    """The statements that stand in a loop."""
    return {id(node) for loop in ast.walk(tree) if isinstance(loop, (ast.For, ast.While)) for node in ast.walk(loop)}


def _emptied(text: Text, statement: ast.stmt) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """What a call in a loop is given, emptied before: it may have to fill it anew each time."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call):
        for name in dict.fromkeys(argument.id for argument in call.args if isinstance(argument, ast.Name)):
            yield f"`{name}` emptied before it", (text.before(statement, f"{name}.zero_()"),)


def _related(tree: ast.Module) -> dict[int, dict[str, set[str]]]:
    """For each statement, of the names that its function has bound before, those that one was computed of, and those that were of it."""
    found: dict[int, dict[str, set[str]]] = {}
    for scope in [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))]:
        nested = (n for n in ast.walk(scope) if isinstance(n, ast.FunctionDef) and n is not scope)
        inner = {id(node) for function in nested for node in ast.walk(function)}
        own = sorted(
            (n for n in ast.walk(scope) if isinstance(n, ast.stmt) and id(n) not in inner), key=lambda n: n.lineno
        )
        related: dict[str, set[str]] = {}
        for node in own:
            found[id(node)] = {name: set(others) for name, others in related.items()}
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                made, of = node.targets[0].id, _names(node.value, ast.Load)
                for other in of & related.keys():
                    related[other].add(made)
                related[made] = of & related.keys()
    return found


def _other_tensors(
    text: Text, whole: ast.stmt | ast.expr, part: ast.AST, related: dict[str, set[str]]
) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """In the place of a tensor that is compared, the one that it was computed of, or that was computed of it."""
    compared = [part] if part is not whole else []
    for node in (n for n in ast.walk(part) if part is whole and isinstance(n, ast.Call)):
        if called(node) in COMPARING or called(node).startswith("assert_"):
            compared += node.args[:2]
    for one in (node for node in compared if isinstance(node, ast.Name)):
        for other in sorted(related.get(one.id, set()) - _names(whole, ast.Load))[:OTHERS]:
            yield f"`{one.id}` as `{other}`", (text.replaced(one, other),)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    kernels = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _launches_itself(node)]
    within = {id(node) for kernel in kernels for node in ast.walk(kernel)}
    around = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _holds(node, kernels)]
    beside = {id(node) for function in around for node in ast.walk(function)}
    read = {name for kernel in kernels for name in _names(kernel, ast.Load)}
    sizes = _sizes(tree)
    for node in ast.walk(tree):
        simple = isinstance(
            node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert, *CONDITIONS)
        )
        if not isinstance(node, ast.stmt) or not simple or id(node) in within or _is_random(node):
            continue
        names = set() if isinstance(node, CONDITIONS) else _names(node, ast.Store)
        if not names & sizes and not (id(node) in beside and names & read):
            yield node


def _launches_itself(function: ast.FunctionDef) -> bool:
    """Whether a kernel stands in the function, and not in one within it."""
    inner = {
        id(n)
        for other in ast.walk(function)
        if isinstance(other, ast.FunctionDef) and other is not function
        for n in ast.walk(other)
    }
    return any(isinstance(n, ast.With) and launches(n) and id(n) not in inner for n in ast.walk(function))


def _holds(function: ast.FunctionDef, kernels: list[ast.FunctionDef]) -> bool:
    return any(kernel in ast.walk(function) for kernel in kernels)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, context)}


def _sizes(tree: ast.Module) -> set[str]:
    """The names that are only ever computed from numbers."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for name in _names(node, ast.Store):
                values.setdefault(name, []).append(node.value)
    sizes: set[str] = set()
    while more := {
        name for name, given in values.items() if name not in sizes and all(_is_number(value, sizes) for value in given)
    }:
        sizes |= more
    return sizes


def _is_number(value: ast.expr, sizes: set[str]) -> bool:
    return all(
        isinstance(node, OF_NUMBERS) or (isinstance(node, ast.Name) and node.id in sizes) for node in ast.walk(value)
    )


def _is_random(statement: ast.stmt) -> bool:
    read = statement.test if isinstance(statement, CONDITIONS) else statement
    names = {node.attr for node in ast.walk(read) if isinstance(node, ast.Attribute)}
    return any(name.startswith(RANDOM) for name in names)


def _open(whole: ast.stmt | ast.expr) -> Iterator[ast.AST]:
    """The parts of a statement, or of a condition, that may be edited: of an error, and of a condition, only both sides of it."""
    names = {node.attr for node in ast.walk(whole) if isinstance(node, ast.Attribute)}
    if isinstance(whole, ast.stmt) and "abs" not in names:
        yield whole
        return
    for node in (node for node in ast.walk(whole) if isinstance(node, ast.Call)):
        operands = [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *node.args]
        if called(node) in COMPARING:
            yield from operands
        elif called(node) == "abs":
            for error in operands:
                if isinstance(error, ast.BinOp) and isinstance(error.op, ast.Sub):
                    yield from (error.left, error.right)


def _changes(text: Text, statement: ast.AST) -> Iterator[tuple[str, tuple[Change, ...]]]:
    def put(node: ast.AST, new: str) -> tuple[str, tuple[Change, ...]]:
        return f"`{text.of(node)}` as `{new}`", (text.replaced(node, new),)

    yield from _slices(text, statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            yield from _of_call(text, node)
            yield from _flags(text, node)
            if _turns(node):
                yield put(node, text.of(node.func.value))  # type: ignore[attr-defined]
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            yield put(node, text.of(node.value))
        elif isinstance(node, ast.AugAssign) and type(node.op) in SIGNS:
            yield put(node, f"{text.of(node.target)} {SIGNS[type(node.op)]}= {text.of(node.value)}")
        elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
            left, right = held(node.left, text.of(node.left)), held(node.right, text.of(node.right))
            yield put(node, f"({left} {SIGNS[type(node.op)]} {right})")
            yield put(node, f"({left})")
            yield put(node, f"({right})")
            if isinstance(node.op, (ast.Sub, ast.Div)):
                yield put(node, f"({right} {OPERATORS[type(node.op)]} {left})")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and not _turns(node.right):
            yield put(node.right, f"{held(node.right, text.of(node.right))}.mT")
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in BOUNDS and not isinstance(statement, ast.Assert):
            if len(node.ops) == 1:
                yield put(node, f"({text.of(node.left)} {BOUNDS[type(node.ops[0])]} {text.of(node.comparators[0])})")
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:
            one, other = node.slice.elts
            if text.of(one) != text.of(other):
                yield f"`{text.of(one)}` and `{text.of(other)}` exchanged", _exchanged(text, one, other)


def _slices(text: Text, statement: ast.AST) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """An end, or a beginning, one further or nearer wherever the statement says it; the last element for the first."""
    bounds: dict[str, list[ast.expr]] = {}
    for node in (n for n in ast.walk(statement) if isinstance(n, ast.Subscript)):
        for index in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            if isinstance(index, ast.Slice):
                for bound in (bound for bound in (index.lower, index.upper) if bound is not None):
                    bounds.setdefault(text.of(bound), []).append(bound)
            elif text.of(index) in ("0", "-1"):
                new = "-1" if text.of(index) == "0" else "0"
                yield f"`{text.of(node)}` at `{new}`", (text.replaced(index, new),)
    for old, nodes in bounds.items():
        for new in (f"{old} + 1", f"{old} - 1"):
            yield f"`{old}` as `{new}`", tuple(text.replaced(node, new) for node in nodes)


def _flags(text: Text, node: ast.Call) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """A flag that a call does not set, or another value of one that it does; rounded before what cuts off; a mask aligned at the other end."""
    name = called(node)
    given = {keyword.arg for keyword in node.keywords}
    end = text.span(node)[1] - 1
    comma = ", " if node.args or node.keywords else ""
    for flag in FLAGS.get(name, ()):
        if flag.partition("=")[0] not in given:
            yield f"with `{flag}`", ((end, end, f"{comma}{flag}"),)
    for keyword in node.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if isinstance(value, bool) and keyword.arg not in HARMLESS:
            yield f"with `{keyword.arg}={not value}`", (text.replaced(keyword.value, str(not value)),)
    if not isinstance(node.func, ast.Attribute):
        return
    holder = text.of(node.func.value)
    whole = name in WHOLE and ("int" in "".join(map(text.of, node.args)) or (name in WHOLE[:3] and not node.args))
    if whole:
        yield f"`{holder}` rounded", (text.replaced(node.func.value, f"({holder}).round()"),)
    if name in ("tril", "triu") and not node.keywords:
        masked = text.of(node.args[0]) if node.args and holder == "torch" else holder
        if len(node.args) == (holder == "torch"):
            offset = f"({masked}).shape[-1] - ({masked}).shape[-2]"
            yield f"`{name}` aligned at the end", ((end, end, f"{comma}{offset}"),)


def _turns(node: ast.AST) -> bool:
    """Whether it is `x.t()`."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and called(node) in TURNED and not node.args
    )


def _of_call(text: Text, node: ast.Call) -> Iterator[tuple[str, tuple[Change, ...]]]:
    name = called(node)
    other = SWAPPED.get(name)
    if other is not None and isinstance(node.func, ast.Attribute):
        package = held(node.func.value, text.of(node.func.value))
        yield f"`{other}` for `{name}`", (text.replaced(node.func, f"{package}.{other}"),)
    axes = [keyword.value for keyword in node.keywords if keyword.arg in AXES]
    axes += node.args if name in ALONG else []
    for axis in axes:
        yield from ((f"`{text.of(axis)}` as `{value}`", (text.replaced(axis, str(value)),)) for value in _others(axis))
    numbers = [argument for argument in node.args[:2] if isinstance(argument, (ast.Constant, ast.UnaryOp, ast.BinOp))]
    shifts: list[ast.expr] = [*numbers[:1]] if name in SHIFTING else []
    shifts += [keyword.value for keyword in node.keywords if name in SHIFTING and keyword.arg in ("shifts", "k")]
    for shift in shifts:
        yield f"`{text.of(shift)}` as `-({text.of(shift)})`", (text.replaced(shift, f"-({text.of(shift)})"),)
    names = [argument for argument in node.args if isinstance(argument, ast.Name)]
    for number, one in enumerate(names):
        for two in names[number + 1 :]:
            yield f"`{one.id}` and `{two.id}` exchanged", _exchanged(text, one, two)
    for argument in names:  # handed over the wrong way round
        yield f"`{argument.id}` as `{argument.id}.T`", (text.replaced(argument, f"{argument.id}.T"),)
        yield (
            f"`{argument.id}` as `{argument.id}.mT.contiguous()`",
            (text.replaced(argument, f"{argument.id}.mT.contiguous()"),),
        )


def _others(axis: ast.expr) -> Collection[int]:
    value = axis.value if isinstance(axis, ast.Constant) else None
    if isinstance(axis, ast.UnaryOp) and isinstance(axis.op, ast.USub) and isinstance(axis.operand, ast.Constant):
        value = -axis.operand.value if type(axis.operand.value) is int else None
    return [other for other in (0, 1, -1) if other != value] if type(value) is int else ()


def _exchanged(text: Text, one: ast.expr, other: ast.expr) -> tuple[Change, ...]:
    return text.replaced(one, text.of(other)), text.replaced(other, text.of(one))
