"""What decided over an `assert`, a `raise` or an exit of the script: the conditions it stands under, and what they were
computed from, as far as names lead.

    err = (out.float() - ref).abs().max()
    if err > 1e-2:                           # decides, and rests on the line above
        raise ValueError("wrong")

Expressions are read from the source. Only what has no effect is evaluated again, to find the tensors that were subtracted.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import errors

#: expressions that are followed
LIMIT = 200
#: attributes and methods of tensors and arrays that only look at them
VIEWS = frozenset({"T", "mT", "H", "data", "grad", "real", "imag"})
PURE = frozenset(
    {"float", "double", "half", "bfloat16", "int", "long", "to", "type", "cpu", "cuda", "numpy", "astype", "detach", "clone"}
    | {"contiguous", "reshape", "view", "flatten", "ravel", "squeeze", "unsqueeze", "t", "transpose", "permute"}
)  # fmt: skip
#: functions and methods of torch that references are made of: they compute a tensor of others, and nothing of them is random
COMPUTES = frozenset(
    {"softmax", "log_softmax", "sigmoid", "tanh", "relu", "gelu", "silu", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "square", "pow"}
    | {"matmul", "mm", "bmm", "einsum", "linear", "sum", "mean", "amax", "amin", "cumsum", "cumprod", "logsumexp", "prod", "outer", "dot", "mv"}
    | {"layer_norm", "rms_norm", "group_norm", "normalize", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "maximum", "minimum", "where"}
    | {"clamp", "abs", "neg", "sin", "cos", "erf", "add", "sub", "mul", "div", "masked_fill", "tril", "triu", "flip", "roll", "repeat_interleave"}
    | {"expand", "repeat", "index_select", "gather", "scaled_dot_product_attention", "cross_entropy", "avg_pool2d", "max_pool2d", "pad"}
    | {"interpolate", "embedding", "one_hot", "cat", "stack", "unflatten", "movedim", "swapaxes", "type_as", "softplus", "leaky_relu", "var", "std"}
)  # fmt: skip
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.MatMult: operator.matmul,
}  # fmt: skip
ORDERS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
#: methods of tensors and arrays that make fewer elements of them, and change nothing
REDUCES = frozenset({"abs", "max", "min", "mean", "sum", "norm", "any", "all", "item", "square", "sqrt"})
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
#: what tells of a tensor no element
ABOUT = frozenset(
    {"shape", "dtype", "device", "ndim", "layout", "is_cuda", "requires_grad", "grad_fn", "itemsize", "nbytes"}
)
ASKS = frozenset({"size", "stride", "dim", "numel", "element_size", "is_contiguous", "data_ptr", "is_floating_point"})
#: functions that tell how long their argument takes
TIMERS = frozenset({"do_bench", "elapsed_time", "timeit"})
#: values that nobody changes in place
PLAIN = (int, float, complex, str, bytes, bool, type(None))
#: ends that leave the rest of a body to the other case
LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


@dataclass(frozen=True)
class Step:
    """An expression, or a whole statement, in the frame that evaluated it."""

    node: ast.AST
    frame: types.FrameType
    #: it stands, or leads to what decided, under a condition that does not hold with the values of the end: another round of a loop may
    #: have decided, or nothing of this did
    past: bool = False

    @property
    def lines(self) -> range:
        first = getattr(self.node, "lineno", 0)
        return range(first, (getattr(self.node, "end_lineno", None) or first) + 1)


@dataclass(frozen=True)
class Passed:
    """A place on the way through the script: a line, and the function it is in, known by file and first line."""

    function: tuple[str, int]
    line: int

    @staticmethod
    def of(frame: types.FrameType, line: int) -> Passed:
        return Passed((frame.f_code.co_filename, frame.f_code.co_firstlineno), line)


@dataclass
class Decision:
    """`kind`: assert, raise or exit. `steps`: what decided, then what that was computed from, and so on. `users` are the
    user's frames on the way to the end, each with its line, the innermost last."""

    kind: str
    users: list[tuple[types.FrameType, int]]
    steps: list[Step] = field(default_factory=list)
    #: the script raised while it handled another error
    handling: bool = False

    @property
    def through(self) -> tuple[Passed, ...]:
        return tuple(Passed.of(frame, line) for frame, line in self.users)

    def rests_on(self, through: tuple[Passed, ...]) -> bool:
        """Whether a comparison made on this way through the script is among what decided."""
        return any(self._made_in(step, through) for step in self.steps)

    def of_values(self, is_user: Callable[[str], bool]) -> bool:
        """Whether what a kernel wrote may have decided: not where the script asks for a shape, a type, the time, a file or a device.

        Any tensor may have been written by one, any function of the script may have looked at one.
        """
        if self.handling or len(self.steps) > LIMIT:
            return True
        names = ((step, node) for step in self.steps for node in _reads(step.node) if isinstance(node, ast.Name))
        return any(_may_hold_values(node, step.frame, is_user) for step, node in names)

    def _made_in(self, step: Step, through: tuple[Passed, ...]) -> bool:
        """Whether the way leads through the lines of a step, and not on into the call in which the script ended: what was
        compared there was not compared to compute an argument."""
        at = [frame for frame, _ in self.users].index(step.frame)
        ended = Passed.of(*self.users[at + 1]) if at + 1 < len(self.users) else None
        here = Passed.of(step.frame, 0)
        for passed, following in itertools.zip_longest(through, through[1:]):
            into_the_end = ended is not None and following is not None and following.function == ended.function
            if passed.function == here.function and passed.line in step.lines and not into_the_end:
                return True
        return False

    def bounds(self) -> list[float]:
        """The numbers that the nearest condition compares with that compares values, also those that a name stands for."""
        found = (list(_numbers_in(step.node, step.frame)) for step in self._nearest())
        return next((numbers for numbers in found if numbers), [])

    def values(self) -> Iterator[Any]:
        """What the names in the steps stand for now, as far as it is read and not only measured."""
        for step in self.steps:
            for node in (n for n in _reads(step.node) if isinstance(n, ast.Name)):
                yield value_of(node, step.frame)

    def operands(self) -> Iterator[Operands]:
        """Pairs of tensors or arrays that were subtracted, compared, or handed to one function together, and where from."""
        for step in self._nearest():
            for node in ast.walk(step.node):
                for one, other in _pairs(node):
                    values = _whole(one, step.frame), _whole(other, step.frame)
                    if all(hasattr(value, "shape") and hasattr(value, "dtype") for value in values):
                        steps = (Step(one, step.frame, step.past), Step(other, step.frame, step.past))
                        compares = isinstance(node, ast.Compare)
                        together = isinstance(node, ast.Call) and called(node) != "sub"
                        yield Operands(
                            *values, steps, exact=compares, bounded=compares and _bounds(node), together=together
                        )

    def _nearest(self) -> list[Step]:
        return sorted(self.steps, key=lambda step: step.past)


@dataclass(frozen=True)
class Operands:
    """Two tensors or arrays whose difference was looked at; `exact`: by `==` and the like. `bounded`: by `<` and the like, as an error and what it may
    be are. `together`: both were handed to one function, which may as well be a kernel as a check."""

    one: Any
    other: Any
    steps: tuple[Step, Step]
    exact: bool
    bounded: bool
    together: bool = False


@dataclass(frozen=True)
class Condition:
    """What a statement stands under. `holds`: whether it is reached if the condition holds, or if not; None where neither decides."""

    node: ast.AST
    holds: bool | None = None

    def is_past(self, frame: types.FrameType) -> bool:
        """Whether, with the values that the names have now, the statement would not be reached."""
        truth = _truth(self.node, frame) if self.holds is not None else None
        return truth is not None and truth is not self.holds


def of_error(error: BaseException, context: Any) -> Decision | None:
    """What decided over an error that the script itself raised; None for any other."""
    entries = _entries(error.__traceback__)
    users = [(frame, line) for frame, line in entries if context.is_user(frame.f_code.co_filename)]
    if not users or not (isinstance(error, (AssertionError, SystemExit)) or errors.raises_itself(error, users[-1][0])):
        return None
    frame, line = users[-1]
    ending = statement(frame, line)
    if ending is None:
        return None
    kind = "exit" if isinstance(error, SystemExit) else "assert" if isinstance(ending, ast.Assert) else "raise"
    decision = Decision(kind, users, handling=error.__context__ is not None)
    if isinstance(ending, ast.Assert):
        decision.steps.append(Step(ending.test, frame))
    elif not isinstance(ending, ast.Raise):  # such as `self.assertTrue(torch.allclose(a, b))`
        decision.steps.append(Step(ending, frame))
    for outer, at in reversed(users):  # `def fail(text): sys.exit(text)` is decided where it is called
        call = ending if outer is frame else statement(outer, at)
        under = _conditions(_scope(outer), call) if call is not None else ()
        decision.steps += [Step(condition.node, outer) for condition in under]
    if isinstance(ending, ast.Raise) and kind == "exit":  # raise SystemExit(main())
        decision.steps.append(Step(ending, frame))
    _follow(decision)
    return decision


def called(node: ast.AST) -> str:
    """The last part of the name of what is called; "" if nothing is."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def _entries(trace: types.TracebackType | None) -> list[tuple[types.FrameType, int]]:
    found = []
    while trace is not None:
        if not errors.is_harness(trace.tb_frame.f_code.co_filename):
            found.append((trace.tb_frame, trace.tb_lineno or 0))
        trace = trace.tb_next
    return found


def _follow(decision: Decision) -> None:
    """Add what the names in the steps were bound to or filled with, and under which conditions, in the function or, for its
    parameters, in the call."""
    callers = {inner[0]: outer for outer, inner in itertools.pairwise(decision.users)}
    seen: set[tuple[types.FrameType, str, bool]] = set()
    for step in decision.steps:  # which grows
        if len(decision.steps) > LIMIT:
            return
        for node in (n for n in _reads(step.node) if isinstance(n, ast.Name)):
            name = node.id
            known = {(step.frame, name, past) for past in {False, step.past}}
            if known & seen or isinstance(value_of(node, step.frame), types.ModuleType):
                continue
            seen.add((step.frame, name, step.past))
            decision.steps += _made(step, name)
            if step.frame in callers:
                outer = callers[step.frame][0]
                decision.steps += [Step(value, outer, step.past) for value in given(step.frame, name, callers)]


def _made(step: Step, name: str) -> list[Step]:
    """What binds a name that a step reads or may fill what it stands for, then the conditions under which that happens: in
    `if err > 1e-2: bad.append(shape)`, `bad` rests on `err`, though nothing of it is in the list."""
    scope = _scope(step.frame)
    made, conditions = [], []
    for node in [*_bound(scope, name), *_filled(scope, name)]:
        under = _conditions(scope, node)
        past = step.past or any(condition.is_past(step.frame) for condition in under)
        made.append(Step(node, step.frame, past))
        conditions += [Step(condition.node, step.frame, past) for condition in under]
    return list({(id(one.node), one.past): one for one in [*made, *conditions]}.values())


def _reads(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression or a statement without those of which it reads no element, and those that it only measures."""
    if isinstance(node, ast.Attribute) and node.attr in ABOUT:
        return
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in TIMERS or (isinstance(node.func, ast.Attribute) and name in ASKS):
            return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _reads(child)


def _may_hold_values(node: ast.Name, frame: types.FrameType, is_user: Callable[[str], bool]) -> bool:
    """Whether a name stands for a tensor, for what looks at one or makes one, or for what is changed where nobody follows."""
    value = value_of(node, frame)
    if value is UNKNOWN:  # a builtin function, or a variable of an expression, whose source is another name
        return False
    if isinstance(value, types.ModuleType):
        return is_user(str(getattr(value, "__file__", "")))
    if isinstance(value, (types.FunctionType, type)):
        home = sys.modules.get(value.__module__)
        return value.__module__.partition(".")[0] == "tilelang" or is_user(str(getattr(home, "__file__", "")))
    if isinstance(value, types.BuiltinFunctionType):
        return False
    if isinstance(value, PLAIN):
        return _mentioned(frame, node.id, declared=True)
    if type(value) in (list, tuple, dict, set):
        return not _is_plain(value) or _mentioned(frame, node.id, declared=False)
    return True


def _is_plain(value: Any) -> bool:
    """Whether a container holds plain values only."""
    inside = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
    return all(_is_plain(one) if type(one) in (list, tuple, dict, set) else isinstance(one, PLAIN) for one in inside)


def _mentioned(frame: types.FrameType, name: str, declared: bool) -> bool:
    """Whether a function of the file may change what a name stands for; `declared`: only one that says so could."""
    for node in ast.walk(_file(frame.f_code.co_filename)):
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
        elsewhere = not declared and isinstance(node, SCOPES) and node is not _scope(frame)
        if elsewhere and any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node)):
            return True
    return False


def given(
    frame: types.FrameType, name: str, callers: Mapping[types.FrameType, tuple[types.FrameType, int]]
) -> Iterator[ast.expr]:
    """What a parameter of a running function was given in the statement that called it."""
    code = frame.f_code
    parameters = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    call = statement(*callers[frame]) if name in parameters else None
    for node in ast.walk(call) if call is not None else ():
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != code.co_name:
            continue
        bound = int(isinstance(node.func, ast.Attribute) and parameters[0] in ("self", "cls"))
        at = parameters.index(name) - bound
        if 0 <= at < len(node.args):
            yield node.args[at]
        yield from (keyword.value for keyword in node.keywords if keyword.arg == name)


# ------------------------------------------------------------------------------------------------------------- source


def _scope(frame: types.FrameType) -> ast.AST:
    """The function, or the module, whose body a frame runs: always the same object for one function."""
    return body_of(frame.f_code)


@functools.cache
def _file(path: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@functools.cache
def body_of(code: types.CodeType) -> ast.AST:
    tree = _file(code.co_filename)
    if code.co_name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= code.co_firstlineno <= node.lineno:
                return node
    return ast.Module([], [])


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions inside it."""
    queue = list(ast.iter_child_nodes(scope))
    for node in queue:
        yield node
        if not isinstance(node, SCOPES):
            queue += ast.iter_child_nodes(node)


def statement(frame: types.FrameType, line: int) -> ast.stmt | None:
    """The innermost statement of the frame's function that holds a line."""
    holding = [
        node for node in _inside(_scope(frame))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    return max(holding, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def _conditions(scope: ast.AST, at: ast.AST) -> list[Condition]:
    """What decides whether a statement is reached, the nearest first: the conditions around it, what a loop around it runs over,
    what may have raised before a handler or the `else` of a `try` and, where it follows an `if` whose body leaves, that of the `if`."""
    parents = parents_of(scope)
    found: list[Condition] = []
    node = at
    around = False
    while node is not scope and id(node) in parents:
        parent = parents[id(node)]
        if not around:
            left = (before for before in _before(parent, node) if isinstance(before, ast.If) and _leaves(before))
            found += [Condition(before.test, False) for before in left]
        if isinstance(parent, (ast.If, ast.While)):
            around = True
            holds = None if isinstance(parent, ast.While) else not any(node is one for one in parent.orelse)
            found.append(Condition(parent.test, holds))
        if isinstance(parent, ast.For) and not isinstance(parent.iter, (ast.Tuple, ast.List)):
            found.append(Condition(parent.iter))
        if isinstance(parent, ast.Match):
            found.append(Condition(parent.subject))
        if isinstance(parent, ast.Try) and not any(node is one for one in (*parent.body, *parent.finalbody)):
            found += map(Condition, parent.body)
        node = parent
    return found


@functools.cache
def parents_of(scope: ast.AST) -> dict[int, ast.AST]:
    """What each node of a function, by its id, is directly a part of."""
    return {id(child): node for node in [scope, *_inside(scope)] for child in ast.iter_child_nodes(node)}


def _before(parent: ast.AST, node: ast.AST) -> list[ast.stmt]:
    """The statements before one in its body, the nearest first."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(parent, name, None)
        if isinstance(body, list) and any(one is node for one in body):
            return body[: next(n for n, one in enumerate(body) if one is node)][::-1]
    return []


def _leaves(node: ast.If) -> bool:
    return isinstance(node.body[-1], LEAVES)


def _bound(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """The statements that bind a name anywhere in a function, of a loop what it runs over, and the calls of the name's
    methods, which may fill it."""
    for node in _inside(scope):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For)):
            targets = [node.target]
        elif _is_method_call(node):
            targets = [node.value.func.value]
        else:
            continue
        if any(isinstance(n, ast.Name) and n.id == name for target in targets for n in ast.walk(target)):
            yield node.iter if isinstance(node, ast.For) else node


def _is_method_call(node: ast.AST) -> bool:
    called = node.value if isinstance(node, ast.Expr) else None
    return isinstance(called, ast.Call) and isinstance(called.func, ast.Attribute)


def _filled(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """The statements for their effect in which a method of a name is called beside other things, as in `wrong and bad.append(1)`,
    or the name is handed to a function."""
    for node in _inside(scope):
        called = node.value if isinstance(node, ast.Expr) else None
        if called is None or _is_method_call(node):
            continue
        for inner in ast.walk(called):
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and _is_named(inner.func.value, name)
            ):
                yield node
                break
    yield from _handed(scope, name)


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def bound_before(frame: types.FrameType, use: ast.Name) -> list[ast.AST]:
    """What a name was bound to last before a use of it, as far as the order of the lines says, and what changed it since;
    everything that it is bound to where that is not before."""
    scope = _scope(frame)
    nodes = sorted([*_bound(scope, use.id), *_handed(scope, use.id)], key=lambda node: getattr(node, "lineno", 0))
    before = [node for node in nodes if getattr(node, "lineno", 0) < use.lineno]
    plain = [n for n, node in enumerate(before) if not _changes(node, use.id)]
    return list(before[plain[-1] :] if plain else before or nodes)


def _handed(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """The calls for their effect that are given a name itself, and may fill it; none that only look."""
    for node in _inside(scope):
        called = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(called, ast.Call):
            continue
        function = ast.unparse(called.func).rpartition(".")[2]
        given = [*called.args, *(keyword.value for keyword in called.keywords)]
        if function != "print" and not function.startswith(("assert", "torch_assert")):
            yield from (node for one in given if isinstance(one, ast.Name) and one.id == name)


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a binding makes a value from the one that the name had before."""
    before = (isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))
    return isinstance(node, ast.AugAssign) or any(before)


# ------------------------------------------------------------------------------------------------------------- values

UNKNOWN = object()


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        yield node.left, node.right
    elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
        yield node.left, node.comparators[0]
    elif isinstance(node, ast.Call) and len(node.args) >= 2 and called(node) not in COMPUTES - {"sub"}:
        yield from itertools.pairwise(node.args)  # a check of the script's own may take a title first
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        yield node.func.value, node.args[0]  # `out.sub(ref)`


def _bounds(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops)


def _sides(node: ast.AST) -> list[ast.expr]:
    """The sides of a comparison, of one of values: how long a list is, is none."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    counts = any(isinstance(side, ast.Call) and ast.unparse(side.func) == "len" for side in sides)
    return [] if counts else sides


def numbers_compared(frame: types.FrameType, line: int) -> list[float]:
    """The numbers that values are compared with in the function that a frame runs; of a module, in and after a line."""
    nodes = [n for n in _inside(_scope(frame)) if isinstance(n, ast.Compare)]
    here = [n for n in nodes if frame.f_code.co_name != "<module>" or n.lineno >= line]
    return [number for node in here for number in _numbers_in(node, frame)]


def _numbers_in(root: ast.AST, frame: types.FrameType) -> Iterator[float]:
    """The numbers that the comparisons in an expression or a statement compare with, also those that a name stands for."""
    for side in (side for node in ast.walk(root) for side in _sides(node)):
        bindings = _bound(_scope(frame), side.id) if isinstance(side, ast.Name) else ()
        values = [getattr(n, "value", n) for n in bindings] if isinstance(side, ast.Name) else [side]
        numbers = [value_of(value, frame) for value in values if not isinstance(value, ast.Name)]
        if len(numbers) == len(values):
            yield from (float(n) for n in numbers if isinstance(n, (int, float)))


def _truth(node: ast.AST, frame: types.FrameType) -> bool | None:
    """Whether a condition holds with the values that its names have now; None where looking at them does not tell."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand, frame)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        parts = [_truth(value, frame) for value in node.values]
        return None if None in parts else any(parts) if isinstance(node.op, ast.Or) else all(parts)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sides = [_number(side, frame) for side in (node.left, node.comparators[0])]
        compare = ORDERS.get(type(node.ops[0]))
        return None if None in sides or compare is None else bool(compare(*sides))
    value = value_of(node, frame) if isinstance(node, ast.Name) else UNKNOWN
    return bool(value) if isinstance(value, (int, float)) else None


def _number(node: ast.expr, frame: types.FrameType) -> float | None:
    """A number, or that of a tensor of one element, also where it is reduced to one: `(out - ref).abs().max().item()`."""
    value: Any = value_of(node, frame)
    try:
        if value is UNKNOWN and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            value = _tensor(node, frame)
        return None if value is None or value is UNKNOWN or isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, RuntimeError):  # of many elements, or of a type that is not reduced so: no number
        return None


def _tensor(node: ast.expr, frame: types.FrameType) -> Any:
    """The value of a tensor, or of methods without arguments of one that only reduce it; None of anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        inner = _tensor(node.func.value, frame) if node.func.attr in REDUCES else None
        return None if inner is None else getattr(inner, node.func.attr)()
    value = value_of(node, frame)
    return value if hasattr(value, "dtype") and hasattr(value, "shape") else None


def _whole(node: ast.expr, frame: types.FrameType) -> Any:
    """The value of an operand; of one element the tensor it was taken from."""
    value = value_of(node, frame)
    while isinstance(node, ast.Subscript) and not getattr(value, "shape", ()):
        node = node.value
        value = value_of(node, frame)
    return value


def value_of(node: ast.expr, frame: types.FrameType) -> Any:
    """The value of an expression that can be evaluated without an effect; `UNKNOWN` of any other."""
    try:
        return _evaluate(node, frame)
    except Exception:  # noqa: BLE001 - names may be gone, shapes may not fit: then nothing is known
        return UNKNOWN


def _evaluate(node: ast.expr | None, frame: types.FrameType) -> Any:
    if node is None:
        return None
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals[node.id] if node.id in frame.f_locals else frame.f_globals[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(_evaluate(element, frame) for element in node.elts)
    if isinstance(node, ast.Slice):
        return slice(*(_evaluate(part, frame) for part in (node.lower, node.upper, node.step)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, frame)
    if isinstance(node, ast.Subscript):
        return _evaluate(node.value, frame)[_evaluate(node.slice, frame)]
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_evaluate(node.left, frame), _evaluate(node.right, frame))
    if isinstance(node, ast.Attribute):
        base = _evaluate(node.value, frame)
        return getattr(base, node.attr) if node.attr in VIEWS else vars(base)[node.attr]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PURE | COMPUTES:
        base = _evaluate(node.func.value, frame)
        of_torch = getattr(base, "__name__", "") in ("torch", "torch.nn.functional", "torch.linalg", "torch.special")
        if not (of_torch if isinstance(base, types.ModuleType) else hasattr(base, "dtype")):
            raise LookupError(node.func.attr)
        options = {k.arg: _evaluate(k.value, frame) for k in node.keywords if k.arg}
        return getattr(base, node.func.attr)(*(_evaluate(a, frame) for a in node.args), **options)
    raise LookupError(type(node).__name__)
