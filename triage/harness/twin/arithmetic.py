"""Operators on values: integers and booleans of Python or numpy scalars where all lanes agree, arrays of lanes otherwise."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .dtypes import NARROW_FLOATS, is_float, is_integer, wrap, wrapped, wrapped_array
from .frame import Frame
from .outcome import Unsupported

Value = Any
Closure = Callable[[Frame], Value]


def truth(value: Value) -> Value:
    return value if isinstance(value, np.ndarray) else bool(value)


# ------------------------------------------------------------------------------------------ two operands


def binary(name: str, a: Closure, b: Closure, dtype: np.dtype) -> Closure:
    """The closure of a binary node; `dtype` is the type of its operands."""
    if name in COMPARISONS:
        compare = COMPARISONS[name]
        return lambda frame: truth(compare(a(frame), b(frame)))
    if name in ("Min", "Max"):
        return _extremum(name, a, b, dtype)
    if name in DIVISIONS:
        if is_float(dtype) and name == "Div":
            return lambda frame: a(frame) / b(frame)
        return _division(DIVISIONS[name], a, b, dtype)
    combine = ARITHMETIC[name]
    if is_float(dtype):
        return lambda frame: combine(a(frame), b(frame))
    if dtype == np.bool_:
        raise Unsupported(f"{name} of booleans")
    return _integer(combine, a, b, dtype)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _integer(combine: Callable[[Any, Any], Any], a: Closure, b: Closure, dtype: np.dtype) -> Closure:
    limits = wrap(dtype)
    low, high, _ = limits

    def run(frame: Frame) -> Value:
        value = combine(a(frame), b(frame))
        if type(value) is int and not low <= value <= high:
            return wrapped(value, limits)
        return value

    return run


def _extremum(name: str, a: Closure, b: Closure, dtype: np.dtype) -> Closure:
    """Of a number and NaN the device takes the number."""
    plain = min if name == "Min" else max
    if is_float(dtype):
        arrays = np.fmin if name == "Min" else np.fmax
    else:
        arrays = np.minimum if name == "Min" else np.maximum

    def run(frame: Frame) -> Value:
        x, y = a(frame), b(frame)
        return plain(x, y) if type(x) is int and type(y) is int else arrays(x, y)

    return run


def _floor_div(a: Any, b: Any) -> Any:
    return a // b


def _floor_mod(a: Any, b: Any) -> Any:
    return a % b


def _trunc_div(a: Any, b: Any) -> Any:
    quotient = a // b
    if isinstance(quotient, int):
        return quotient + 1 if quotient < 0 and quotient * b != a else quotient
    return quotient + ((quotient < 0) & (quotient * b != a)).astype(quotient.dtype)


def _trunc_mod(a: Any, b: Any) -> Any:
    return a - _trunc_div(a, b) * b


DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Div": _trunc_div,
    "Mod": _trunc_mod,
    "FloorDiv": _floor_div,
    "FloorMod": _floor_mod,
}


def _division(divide: Callable[[Any, Any], Any], a: Closure, b: Closure, dtype: np.dtype) -> Closure:
    def run(frame: Frame) -> Value:
        x, y = a(frame), b(frame)
        if isinstance(y, np.ndarray):
            zero = y == 0
            if zero.any():
                _report_zero(frame, zero)
                y = np.where(zero, 1, y)
                return np.where(zero, 0, divide(x, y)).astype(dtype)
        elif y == 0:
            _report_zero(frame, np.True_)
            return 0
        return divide(x, y)

    return run


def _report_zero(frame: Frame, zero: Any) -> None:
    active = zero if frame.mask is None else zero & frame.mask
    count = int(active.sum())
    if count:
        frame.record("division-by-zero", "", (), (), count)


# ------------------------------------------------------------------------------------------ one operand


def math_function(name: str) -> Callable[..., Any] | None:
    """A function of floats, to be called with fp32 or fp64 values."""
    return MATH.get(name.removeprefix("__").removeprefix("ieee_"))


def _erf(x: Any) -> Any:
    import torch

    array = np.asarray(x)
    return torch.erf(torch.from_numpy(np.array(array))).numpy().astype(array.dtype)[()]


def _sigmoid(x: Any) -> Any:
    one = np.asarray(x).dtype.type(1)
    return one / (one + np.exp(-x))


def _round_away(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + np.asarray(x).dtype.type(0.5)), x)


def _fused(a: Any, b: Any, c: Any) -> Any:
    wide = np.float64 if np.asarray(a).dtype != np.float64 else np.longdouble
    result = np.asarray(a).astype(wide) * b + c
    return result.astype(np.asarray(a).dtype)[()]


MATH: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(np.asarray(x).dtype.type(10), x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "fsqrt": np.sqrt,
    "rsqrt": lambda x: np.asarray(x).dtype.type(1) / np.sqrt(x),
    "frsqrt": lambda x: np.asarray(x).dtype.type(1) / np.sqrt(x),
    "frcp": lambda x: np.asarray(x).dtype.type(1) / x,
    "fast_rcp": lambda x: np.asarray(x).dtype.type(1) / x,
    "tanh": np.tanh,
    "tan": np.tan,
    "sin": np.sin,
    "cos": np.cos,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "fabs": np.abs,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "nearbyint": np.rint,
    "round_ties_away_from_zero": _round_away,
    "pow": np.power,
    "power": np.power,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "ldexp": lambda x, e: np.ldexp(x, np.asarray(e).astype(np.int32)),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "fma": _fused,
    "fmaf": _fused,
}
PREDICATES: dict[str, Callable[[Any], Any]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


def of_floats(function: Callable[..., Any], arguments: list[Closure], dtype: np.dtype) -> Closure:
    """A function of floats, computed in fp32 for all that is narrower and rounded once."""
    if dtype.name in NARROW_FLOATS:

        def run(frame: Frame) -> Value:
            values = (np.asarray(argument(frame)).astype(np.float32)[()] for argument in arguments)
            return np.asarray(function(*values)).astype(dtype)[()]

        return run
    if len(arguments) == 1:
        (only,) = arguments
        return lambda frame: function(only(frame))
    return lambda frame: function(*(argument(frame) for argument in arguments))


def of_integers(function: Callable[..., Any], arguments: list[Closure], dtype: np.dtype) -> Closure:
    """A function of integers that is defined on arrays alone."""
    limits = wrap(dtype) if is_integer(dtype) else None

    def run(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        if all(isinstance(value, int) for value in values):
            result = function(*values)
            return bool(result) if limits is None else wrapped(int(result), limits)
        return function(*values)

    return run


def shift_left(a: Any, b: Any) -> Any:
    return a << b


def shift_right(a: Any, b: Any) -> Any:
    return a >> b


def popcount(value: Any) -> Any:
    array = np.asarray(value)
    unsigned = array.view(np.dtype(f"u{array.dtype.itemsize}")) if array.dtype.kind == "i" else array
    count = np.zeros(array.shape, np.int32)
    for bit in range(8 * array.dtype.itemsize):
        count += ((unsigned >> unsigned.dtype.type(bit)) & unsigned.dtype.type(1)).astype(np.int32)
    return count


def leading_zeros(value: Any) -> Any:
    array = np.asarray(value)
    bits = 8 * array.dtype.itemsize
    unsigned = array.view(np.dtype(f"u{array.dtype.itemsize}")) if array.dtype.kind == "i" else array
    count = np.full(array.shape, bits, np.int32)
    for bit in range(bits):
        count = np.where((unsigned >> unsigned.dtype.type(bit)) & unsigned.dtype.type(1) == 1, bits - 1 - bit, count)
    return count.astype(np.int32)


def first_set(value: Any) -> Any:
    """`__ffs`: the position of the lowest set bit counted from 1, 0 for none."""
    array = np.asarray(value).astype(np.int64)
    lowest = array & -array
    return np.where(array == 0, 0, np.log2(np.maximum(lowest, 1).astype(np.float64)) + 1).astype(np.int32)


def negate(value: Any) -> Any:
    return ~value if isinstance(value, np.ndarray) else not value


def bit_not(value: Any) -> Any:
    return ~value


def typed(value: Any, dtype: np.dtype) -> np.ndarray:
    """A value as an array of its TIR type (integers of Python have none)."""
    if isinstance(value, np.ndarray):
        return value
    if dtype.name in ("int4", "uint4"):
        return np.asarray(wrapped_array(np.asarray(value), wrap(dtype))).astype(dtype)
    return np.asarray(value, dtype)


def reinterpret(value: Any, source: np.dtype, target: np.dtype) -> Any:
    array = typed(value, source)
    if source.itemsize != target.itemsize:
        raise Unsupported(f"reinterpretation of {source.name} as {target.name}")
    return np.ascontiguousarray(array).view(target).reshape(array.shape)
