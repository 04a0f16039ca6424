"""Tensors as values: where they lie, how many digits they have, and whether somebody changed them."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..virtual.tensors import MARK, VirtualTensor


class Unknown(Exception):
    """Why a value has no shadow."""


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Tensors that are made inside can be changed anywhere, and have no history."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument or a result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The same structure with what `function` makes of its parts."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(mapped(function, item) for item in value)
    return function(value)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the values. Raises `Unknown` where there is none."""
    value = tensor
    if isinstance(tensor, VirtualTensor):
        if tensor.tainted:
            raise Unknown("its values are made up")
        value = tensor.payload
    if value.is_meta or value.layout != torch.strided or getattr(value, MARK, False):
        raise Unknown("it has no values")
    return value


def memory_of(tensor: torch.Tensor) -> int:
    """What all views of one allocation share. Raises `Unknown` where there is none."""
    try:
        return int(plain(tensor).untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError) as why:
        raise Unknown(str(why)) from why


def elements(value: torch.Tensor) -> int:
    """How many elements of its type a tensor's memory holds."""
    return value.untyped_storage().nbytes() // value.element_size()


def covers(value: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory."""
    return value.numel() == elements(value)


def is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


@functools.cache
def significand(dtype: torch.dtype) -> float:
    """Significant bits of a type, the hidden one included; infinite for integers, which round nothing here."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return math.inf
    try:
        return 1.0 - math.log2(torch.finfo(dtype).eps)
    except (TypeError, RuntimeError):
        return 1.0  # types of four bits


def rounded(shadow: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A shadow in the precision of a narrower type. Where the script's own value is a neighbour of it, that value: the
    kernel reads this one."""
    there = shadow.to(value.dtype).to(shadow.dtype)
    here = value.to(shadow.dtype)
    unit = 2.0 ** (1.0 - significand(value.dtype))
    return torch.where((here - there).abs() <= here.abs() * unit, here, there)


def fingerprint(tensor: torch.Tensor) -> int:
    """A number that changes, as good as always, with any byte of a tensor's memory."""
    storage = tensor.untyped_storage()
    whole = storage.nbytes() // 8
    data = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)  # type: ignore[call-overload]
    words = data[: whole * 8].view(torch.int64)
    weights = torch.arange(1, 2 * whole + 1, 2, device=storage.device)  # odd: no word is lost to overflow
    rest = data[whole * 8 :].tolist()
    return int((words * weights).sum()) ^ hash(tuple(rest))
