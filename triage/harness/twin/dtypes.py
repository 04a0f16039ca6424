"""Data types of TIR in numpy: their arrays, how values are rounded into them, and what unwritten memory holds."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from .outcome import Unsupported

#: names in TIR, and those of ml_dtypes, of which older releases lack some
NARROW = {
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2": "float8_e5m2",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
    "float8_e8m0fnu": "float8_e8m0fnu",
    "float4_e2m1fn": "float4_e2m1fn",
    "int4": "int4",
    "uint4": "uint4",
}
NAMES: dict[str, Any] = {name: getattr(ml_dtypes, own) for name, own in NARROW.items() if hasattr(ml_dtypes, own)}
NAMES |= {f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
NAMES |= {name: name for name in ("bool", "float16", "float32", "float64")}
#: tf32 lies in memory as fp32; only tensor cores read less of it
NAMES |= {"tfloat32": "float32", "custom[tfloat32]": "float32"}

#: the pattern of a byte that nobody wrote; as an index it is far outside of every buffer, as a value it is no round number
POISON_BYTE = 0x5A

#: fp32 computes these: transcendental functions and products of narrower types
NARROW_FLOATS = frozenset(
    {"float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"}
)


@functools.cache
def numpy_dtype(name: str) -> np.dtype:
    """The numpy type of a scalar TIR type. Raises `Unsupported` for vectors and handles."""
    if name not in NAMES:
        raise Unsupported(f"data type {name}")
    return np.dtype(NAMES[name])


@functools.cache
def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or (dtype.kind in "Vf" and "float" in dtype.name)


@functools.cache
def is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4")


@functools.cache
def wrap(dtype: np.dtype) -> tuple[int, int, int]:
    """(smallest, largest, modulus) of an integer type."""
    info = ml_dtypes.iinfo(dtype) if dtype.name in ("int4", "uint4") else np.iinfo(dtype)
    return int(info.min), int(info.max), int(info.max) - int(info.min) + 1


def wrapped(value: int, limits: tuple[int, int, int]) -> int:
    low, high, modulus = limits
    return value if low <= value <= high else (value - low) % modulus + low


@functools.cache
def largest(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).max)


@functools.cache
def saturates(dtype: np.dtype) -> bool:
    """Whether CUDA rounds what is too large to the largest value (all 8-bit and 4-bit types do, by `__NV_SATFINITE`)."""
    return is_float(dtype) and dtype.itemsize == 1


def poison_value(dtype: np.dtype) -> Any:
    if is_float(dtype) and dtype.name not in ("float4_e2m1fn",):
        return dtype.type(float("nan"))
    if dtype == np.bool_:
        return np.bool_(True)
    if dtype.name in ("int4", "uint4", "float4_e2m1fn"):
        return dtype.type(2)
    return np.frombuffer(bytes([POISON_BYTE]) * dtype.itemsize, dtype)[0]


def poisoned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array as memory that nobody wrote."""
    array = np.empty(shape, dtype)
    array.fill(poison_value(dtype))
    return array


def cast(value: Any, source: np.dtype, target: np.dtype) -> Any:
    """A value (a scalar or an array) converted as CUDA does: floats round to nearest even, narrow ones saturate;
    to integers they are cut off and saturate; integers wrap around."""
    if source == target:
        return value
    if is_integer(target):
        return _to_integer(value, source, target)
    if target == np.bool_:
        return value != 0 if isinstance(value, np.ndarray) else bool(value != 0)
    if saturates(target):
        if source.kind != "f":
            value = np.asarray(value).astype(np.float32)[()]
        limit = largest(target)
        value = np.clip(value, -limit, limit) if target.name != "float8_e8m0fnu" else value
        return value.astype(target)
    if isinstance(value, np.ndarray):
        return value.astype(target)
    return target.type(value)


def _to_integer(value: Any, source: np.dtype, target: np.dtype) -> Any:
    limits = wrap(target)
    if is_float(source):
        wide = np.asarray(value).astype(np.float64)
        cut = np.trunc(np.where(np.isnan(wide), 0.0, wide))
        if target.itemsize < 8:
            whole = np.clip(cut, limits[0], limits[1]).astype(np.int64)
        else:
            whole = np.where(cut >= 2.0**63, limits[1], np.clip(cut, limits[0], 2.0**63 - 1024).astype(np.int64))
        result = whole.astype(target)
        return result if isinstance(value, np.ndarray) else int(result)
    if isinstance(value, np.ndarray):
        if target.name in ("int4", "uint4"):
            return wrapped_array(value.astype(np.int64), limits).astype(target)
        return value.astype(target)
    return wrapped(int(value), limits)


def wrapped_array(value: np.ndarray, limits: tuple[int, int, int]) -> np.ndarray:
    low, _, modulus = limits
    return (value - low) % modulus + low


def constant(value: Any, dtype: np.dtype) -> Any:
    """A constant as values are held: integers and booleans as Python's own, floats as numpy scalars."""
    if dtype == np.bool_:
        return bool(value)
    if is_integer(dtype):
        return wrapped(int(value), wrap(dtype))
    return np.float64(value) if dtype == np.float64 else cast(np.float64(value), np.dtype(np.float64), dtype)


def plain(value: Any) -> Any:
    """A scalar as values are held; arrays of one element without dimensions become scalars."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value
    dtype = value.dtype
    if dtype == np.bool_:
        return bool(value)
    return int(value) if is_integer(dtype) else (value[()] if isinstance(value, np.ndarray) else value)


def to_tf32(value: np.ndarray) -> np.ndarray:
    """fp32 values as tensor cores read them: the low 13 bits of the mantissa are not looked at."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)
