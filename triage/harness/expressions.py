"""Expressions of tilelang's IR: printing on one line, the variables in them, and the values they can take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

#: at most so many combinations of loop variables are tried to find an exact range
ENUMERATION_LIMIT = 8192
#: bounds at or beyond those of int32 stand for "not bounded"
UNBOUNDED = 2**31 - 1

Number = int | float | bool
Range = tuple[int, int]  # inclusive


def _floordiv(a: Any, b: Any) -> Any:
    return a // b


def _trunc_div(a: Any, b: Any) -> Any:
    return int(a / b) if isinstance(a, float) else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, tuple[str, int, Callable[[Any, Any], Any]]] = {
    "Add": ("+", 5, lambda a, b: a + b),
    "Sub": ("-", 5, lambda a, b: a - b),
    "Mul": ("*", 6, lambda a, b: a * b),
    "Div": ("/", 6, _trunc_div),
    "Mod": ("%", 6, lambda a, b: a - _trunc_div(a, b) * b),
    "FloorDiv": ("//", 6, _floordiv),
    "FloorMod": ("%", 6, lambda a, b: a % b),
    "EQ": ("==", 4, lambda a, b: a == b),
    "NE": ("!=", 4, lambda a, b: a != b),
    "LT": ("<", 4, lambda a, b: a < b),
    "LE": ("<=", 4, lambda a, b: a <= b),
    "GT": (">", 4, lambda a, b: a > b),
    "GE": (">=", 4, lambda a, b: a >= b),
    "And": ("and", 2, lambda a, b: a and b),
    "Or": ("or", 1, lambda a, b: a or b),
}
NAMED = {"Min": min, "Max": max}


def kind(node: Any) -> str:
    return type(node).__name__


def op_name(call: Any) -> str:
    """The short name of a called operator: `copy` for `tl.tileop.copy`, `if_then_else` for `tirx.if_then_else`."""
    return full_op_name(call).rpartition(".")[2]


def full_op_name(call: Any) -> str:
    return str(getattr(call.op, "name", None) or getattr(call.op, "name_hint", None) or call.op)


def children(node: Any) -> Iterator[Any]:
    """The direct subexpressions."""
    name = kind(node)
    if name in BINARY or name in NAMED:
        yield node.a
        yield node.b
    elif name == "Not":
        yield node.a
    elif name == "Cast":
        yield node.value
    elif name == "BufferLoad":
        yield from node.indices
    elif name == "Call":
        yield from node.args
    elif name == "Select":
        yield from (node.condition, node.true_value, node.false_value)
    elif name == "Ramp":
        yield from (node.base, node.stride)
    elif name == "Broadcast":
        yield node.value
    elif name == "Let":
        yield from (node.value, node.body)


def walk(node: Any) -> Iterator[Any]:
    yield node
    for child in children(node):
        yield from walk(child)


def variables(node: Any) -> list[Any]:
    return [n for n in walk(node) if kind(n) == "Var"]


class Printer:
    """Prints expressions; `names` maps buffers to the unique names they have in the record."""

    def __init__(self, name_of_buffer: Callable[[Any], str]) -> None:
        self.name_of_buffer = name_of_buffer

    def __call__(self, node: Any, outer: int = 0) -> str:
        name = kind(node)
        if isinstance(node, (int, float, str)):
            return str(node)
        if name == "Var":
            return str(node.name)
        if name in ("IntImm", "FloatImm"):
            return str(bool(node.value)) if str(node.dtype) == "bool" else str(node.value)
        if name == "StringImm":
            return repr(str(node.value))
        if name in BINARY:
            sign, level, _ = BINARY[name]
            text = f"{self(node.a, level)} {sign} {self(node.b, level + 1)}"
            return f"({text})" if level < outer else text
        if name in NAMED:
            return f"{name.lower()}({self(node.a)}, {self(node.b)})"
        if name == "Not":
            return f"not {self(node.a, 7)}"
        if name == "Cast":
            return f"{node.dtype}({self(node.value)})"
        if name == "BufferLoad":
            return f"{self.name_of_buffer(node.buffer)}[{', '.join(map(self, node.indices))}]"
        if name == "Call":
            return self._call(node)
        if name == "Select":
            return f"select({self(node.condition)}, {self(node.true_value)}, {self(node.false_value)})"
        if name == "Ramp":
            return f"{self(node.base)}:{self(node.base)} + {self(node.lanes)} * {self(node.stride)}"
        if name == "Broadcast":
            return self(node.value, outer)
        return name.lower()

    def _call(self, node: Any) -> str:
        if op_name(node) == "region":
            load, _, *extents = node.args
            mins = [self(i) for i in load.indices]
            sizes = [self(e) for e in extents]
            parts = [
                m if e == "1" else f"{m}:{m} + {e}" if m != "0" else f"0:{e}" for m, e in zip(mins, sizes, strict=True)
            ]
            return f"{self.name_of_buffer(load.buffer)}[{', '.join(parts)}]"
        return f"{op_name(node)}({', '.join(map(self, node.args))})"


class Unknown(Exception):
    """An expression whose value depends on more than loop variables."""


def evaluate(node: Any, values: dict[Any, Number]) -> Number:
    """The value under an assignment of variables. Raises `Unknown`, or `ZeroDivisionError`."""
    name = kind(node)
    if isinstance(node, (int, float)):
        return node
    if name == "Var":
        if node in values:
            return values[node]
        raise Unknown(node.name)
    if name in ("IntImm", "FloatImm"):
        return node.value  # type: ignore[no-any-return]
    if name in BINARY:
        return BINARY[name][2](evaluate(node.a, values), evaluate(node.b, values))  # type: ignore[no-any-return]
    if name in NAMED:
        return NAMED[name](evaluate(node.a, values), evaluate(node.b, values))  # type: ignore[no-any-return]
    if name == "Not":
        return not evaluate(node.a, values)
    if name == "Cast" and "float" not in str(node.dtype):
        return int(evaluate(node.value, values))
    if name == "Select":
        return evaluate(node.true_value if evaluate(node.condition, values) else node.false_value, values)
    if name == "Call":
        return _evaluate_call(node, values)
    raise Unknown(name)


def _evaluate_call(node: Any, values: dict[Any, Number]) -> Number:
    name = op_name(node)
    if name == "if_then_else":
        condition, yes, no = node.args
        return evaluate(yes if evaluate(condition, values) else no, values)
    args = [evaluate(arg, values) for arg in node.args]
    simple: dict[str, Callable[..., Any]] = {
        "shift_left": lambda a, b: a << b,
        "shift_right": lambda a, b: a >> b,
        "bitwise_and": lambda a, b: a & b,
        "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "bitwise_not": lambda a: ~a,
    }
    if name not in simple or any(isinstance(a, float) for a in args):
        raise Unknown(name)
    return simple[name](*args)  # type: ignore[no-any-return]


class Scope:
    """What is known of the variables at one place: ranges of loop variables, and definitions by `Bind`.

    `ranges` hold inclusive integer ranges of variables that are independent of one another.
    """

    def __init__(self, analyzer: Any, substitute: Callable[[Any, Any], Any]) -> None:
        self.analyzer = analyzer
        self._substitute = substitute
        self.ranges: dict[Any, Range] = {}
        #: variables bounded by something that is not constant (an inner loop's extent that depends on an outer one)
        self.dependent: set[Any] = set()
        self.definitions: dict[Any, Any] = {}

    def expand(self, expr: Any) -> Any:
        """`expr` with every `Bind` variable replaced by its value."""
        if isinstance(expr, (int, float)) or not self.definitions:
            return expr
        used = {v: self.definitions[v] for v in variables(expr) if v in self.definitions}
        return self._substitute(expr, used) if used else expr

    def interval(self, expr: Any) -> tuple[int | None, int | None, bool]:
        """Smallest and largest value of an index (None: not bounded), and whether both are attained."""
        if isinstance(expr, int):
            return expr, expr, True
        expr = self.expand(expr)
        used = list(dict.fromkeys(variables(expr)))
        if any(v not in self.ranges and v not in self.dependent for v in used):
            return None, None, False
        if not any(v in self.dependent for v in used):
            exact = self._enumerate(expr, used)
            if exact is not None:
                return *exact, True
        bound = self.analyzer.const_int_bound(expr)
        low, high = int(bound.min_value), int(bound.max_value)
        affine = not any(v in self.dependent for v in used) and _affine(expr)
        return (
            None if low <= -UNBOUNDED else low,
            None if high >= UNBOUNDED else high,
            affine and abs(low) < UNBOUNDED and abs(high) < UNBOUNDED,
        )

    def _enumerate(self, expr: Any, used: list[Any]) -> Range | None:
        ranges = [self.ranges[v] for v in used]
        if math.prod(high - low + 1 for low, high in ranges) > ENUMERATION_LIMIT and _affine(expr):
            # an affine expression takes its extremes at corners
            choices: list[Any] = [sorted({low, high}) for low, high in ranges]
        else:
            choices = [range(low, high + 1) for low, high in ranges]
        if math.prod(len(c) for c in choices) > ENUMERATION_LIMIT:
            return None
        try:
            seen = [evaluate(expr, dict(zip(used, values, strict=True))) for values in itertools.product(*choices)]
        except (Unknown, ZeroDivisionError, TypeError):
            return None
        return (int(min(seen)), int(max(seen))) if seen else None


def _affine(expr: Any) -> bool:
    """Whether `expr` is a sum of variables times constants."""
    name = kind(expr)
    if name in ("Add", "Sub"):
        return _affine(expr.a) and _affine(expr.b)
    if name == "Mul":
        return (_constant(expr.a) and _affine(expr.b)) or (_affine(expr.a) and _constant(expr.b))
    if name == "Cast":
        return "int" in str(expr.dtype) and _affine(expr.value)
    return name in ("Var", "IntImm")


def _constant(expr: Any) -> bool:
    return not variables(expr) and not any(kind(n) in ("BufferLoad", "Call") for n in walk(expr))
