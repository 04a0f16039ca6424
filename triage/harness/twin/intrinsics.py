"""Calls inside of expressions: mathematics, bits, choices and the indices of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import arithmetic
from .arithmetic import Closure, Value
from .dtypes import constant, is_float, largest, numpy_dtype, plain, wrap
from .expressions import TRANSPARENT, Expressions, kind, op_name
from .outcome import Unsupported

INTEGER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": arithmetic.bit_not,
    "abs": abs,
}
#: functions of bits, which need the type of their argument
BIT_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "popcount": arithmetic.popcount,
    "clz": arithmetic.leading_zeros,
    "__ffs": arithmetic.first_set,
}
#: names of device functions and of what they are here
EXTERNS = {
    name + suffix: name for name in ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tanh", "sin", "cos", "tan", "fabs", "floor", "ceil", "round", "trunc", "erf", "pow", "fmod")
    for suffix in ("f", "")
} | {"__expf": "exp", "__logf": "log", "__log2f": "log2", "__sinf": "sin", "__cosf": "cos", "__powf": "pow", "__fdividef": "fdiv"}  # fmt: skip


class Calls(Expressions):
    """Expressions with calls."""

    def call(self, node: Any) -> Closure:
        name = op_name(node)
        short = name.partition(".")[2]
        special = getattr(self, f"_call_{short.removeprefix('__').replace('.', '_')}", None)
        if special is not None:
            return special(node)  # type: ignore[no-any-return]
        if short in TRANSPARENT:
            return self.value(node.args[0])
        if short in INTEGER_FUNCTIONS and not is_float(numpy_dtype(str(node.dtype))):
            return self._of_integers(INTEGER_FUNCTIONS[short], node)
        if short in BIT_FUNCTIONS:
            return self._of_bits(BIT_FUNCTIONS[short], node)
        function = arithmetic.math_function(short)
        if function is not None:
            return self._mathematics(function, node, node.args)
        if short in arithmetic.PREDICATES:
            return self._predicate(arithmetic.PREDICATES[short], node)
        raise Unsupported(f"operator {name}", self.place)

    # --------------------------------------------------------------------------------------- mathematics

    def _mathematics(self, function: Callable[..., Any], node: Any, args: Any) -> Closure:
        dtype = numpy_dtype(str(node.dtype))
        wanted = [arg for arg in args if kind(arg) != "StringImm"]
        return arithmetic.of_floats(function, [self.value(arg) for arg in wanted], dtype)

    def _predicate(self, function: Callable[..., Any], node: Any) -> Closure:
        (argument,) = node.args
        inner = self.value(argument)
        if not is_float(numpy_dtype(str(argument.dtype))):
            answer = function is np.isfinite
            return lambda frame: answer
        return lambda frame: arithmetic.truth(function(inner(frame)))

    def _of_integers(self, function: Callable[..., Any], node: Any) -> Closure:
        dtype = numpy_dtype(str(node.dtype))
        return arithmetic.of_integers(function, [self.value(arg) for arg in node.args], dtype)

    def _of_bits(self, function: Callable[[Any], Any], node: Any) -> Closure:
        (argument,) = node.args
        inner, dtype = self.value(argument), numpy_dtype(str(argument.dtype))
        return lambda frame: plain(function(arithmetic.typed(inner(frame), dtype)))

    def _call_shift_right(self, node: Any) -> Closure:
        return self._of_integers(_shift(arithmetic.shift_right), node)

    def _call_shift_left(self, node: Any) -> Closure:
        return self._of_integers(_shift(arithmetic.shift_left), node)

    def _call_pow(self, node: Any) -> Closure:
        return self._mathematics(np.power, node, node.args)

    def _call_infinity(self, node: Any) -> Closure:
        dtype = numpy_dtype(str(node.dtype))
        number = dtype.type(float("inf")) if is_float(dtype) else constant(wrap(dtype)[1], dtype)
        return lambda frame: number

    def _call_max_value(self, node: Any) -> Closure:
        dtype = numpy_dtype(str(node.dtype))
        number = dtype.type(largest(dtype)) if is_float(dtype) else wrap(dtype)[1]
        return lambda frame: number

    def _call_clamp(self, node: Any) -> Closure:
        dtype = numpy_dtype(str(node.dtype))
        value, low, high = (self.value(arg) for arg in node.args)
        return arithmetic.binary("Min", arithmetic.binary("Max", value, low, dtype), high, dtype)

    def _call_reinterpret(self, node: Any) -> Closure:
        (argument,) = node.args
        inner = self.value(argument)
        source, target = numpy_dtype(str(argument.dtype)), numpy_dtype(str(node.dtype))
        return lambda frame: plain(arithmetic.reinterpret(inner(frame), source, target))

    def _call_large_uint_imm(self, node: Any) -> Closure:
        low, high = (int(arg.value) for arg in node.args)
        number = (high << 32) | low
        return lambda frame: number

    def _call_if_then_else(self, node: Any) -> Closure:
        return self.choice(*node.args[:3])

    def _call_call_pure_extern(self, node: Any) -> Closure:
        name = str(node.args[0].value)
        if name not in EXTERNS:
            raise Unsupported(f"external function {name}", self.place)
        function = arithmetic.math_function(EXTERNS[name])
        assert function is not None, name
        return self._mathematics(function, node, node.args[1:])

    _call_call_extern = _call_call_pure_extern


def _shift(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def shift(a: Any, b: Any) -> Value:
        if isinstance(a, int) and isinstance(b, np.ndarray):
            a = np.asarray(a, b.dtype)
        return function(a, b)

    return shift
