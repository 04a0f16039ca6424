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
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.MatMult: operator.matmul,
}  # fmt: skip
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
        """The numbers that the nearest condition compares with, also those that a name stands for."""
        found: list[float] = []
        for node in ast.walk(self.steps[0].node) if self.steps else ():
            for side in [node.left, *node.comparators] if isinstance(node, ast.Compare) else ():
                frame = self.steps[0].frame
                bindings = _bound(_scope(frame), side.id) if isinstance(side, ast.Name) else ()
                values = [getattr(node, "value", node) for node in bindings] if isinstance(side, ast.Name) else [side]
                numbers = [value_of(value, frame) for value in values if not isinstance(value, ast.Name)]
                found += [float(n) for n in numbers if isinstance(n, (int, float)) and len(numbers) == len(values)]
        return found

    def operands(self) -> Iterator[tuple[tuple[Any, Any], list[Step]]]:
        """Pairs of tensors or arrays that were subtracted, compared, or handed to one function together, and where from."""
        for step in self.steps:
            for node in ast.walk(step.node):
                for one, other in _pairs(node):
                    values = _whole(one, step.frame), _whole(other, step.frame)
                    if all(hasattr(value, "shape") and hasattr(value, "dtype") for value in values):
                        yield values, [Step(one, step.frame), Step(other, step.frame)]


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
        decision.steps += [Step(test, outer) for test in (_conditions(_scope(outer), call) if call is not None else ())]
    if isinstance(ending, ast.Raise) and kind == "exit":  # raise SystemExit(main())
        decision.steps.append(Step(ending, frame))
    _follow(decision)
    return decision


def _entries(trace: types.TracebackType | None) -> list[tuple[types.FrameType, int]]:
    found = []
    while trace is not None:
        if not errors.is_harness(trace.tb_frame.f_code.co_filename):
            found.append((trace.tb_frame, trace.tb_lineno or 0))
        trace = trace.tb_next
    return found


def _follow(decision: Decision) -> None:
    """Add what the names in the steps were bound to, in the function or, for its parameters, in the call."""
    callers = {inner[0]: outer for outer, inner in itertools.pairwise(decision.users)}
    seen: set[tuple[types.FrameType, str]] = set()
    for step in decision.steps:  # which grows
        if len(decision.steps) > LIMIT:
            return
        for node in (n for n in _reads(step.node) if isinstance(n, ast.Name)):
            name = node.id
            if (step.frame, name) in seen or isinstance(value_of(node, step.frame), types.ModuleType):
                continue
            seen.add((step.frame, name))
            decision.steps += [Step(value, step.frame) for value in _bound(_scope(step.frame), name)]
            if step.frame in callers:
                decision.steps += [Step(value, callers[step.frame][0]) for value in given(step.frame, name, callers)]


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


def _conditions(scope: ast.AST, statement: ast.stmt) -> list[ast.expr]:
    """The conditions under which a statement is reached, the nearest first: those around it, and, where it follows an `if`
    whose body leaves, that of the `if`."""
    parents = {id(child): node for node in [scope, *_inside(scope)] for child in ast.iter_child_nodes(node)}
    found: list[ast.expr] = []
    node: ast.AST = statement
    around = False
    while node is not scope and id(node) in parents:
        parent = parents[id(node)]
        if not around:
            found += [before.test for before in _before(parent, node) if isinstance(before, ast.If) and _leaves(before)]
        if isinstance(parent, (ast.If, ast.While)):
            around = True
            found.append(parent.test)
        if isinstance(parent, ast.Match):
            found.append(parent.subject)
        node = parent
    return found


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
    elif isinstance(node, ast.Call) and len(node.args) >= 2:
        yield node.args[0], node.args[1]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        yield node.func.value, node.args[0]  # `out.sub(ref)`


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
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PURE:
        base = _evaluate(node.func.value, frame)
        if not hasattr(base, "dtype"):
            raise LookupError(node.func.attr)
        options = {k.arg: _evaluate(k.value, frame) for k in node.keywords if k.arg}
        return getattr(base, node.func.attr)(*(_evaluate(a, frame) for a in node.args), **options)
    raise LookupError(type(node).__name__)
