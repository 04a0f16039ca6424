"""The shapes of common results, worked out without PyTorch's Python implementations of the meta device.

Those import half of its compiler (sympy, symbolic shapes) on first use, which a small script would pay for with a tenth
of its time. Only contiguous operands are handled here, whose results are contiguous; everything else, and every call
that may be an error, is left to PyTorch (`NotImplemented`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .tensors import META

aten = torch.ops.aten


def quick(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operator on payloads as a meta tensor, or `NotImplemented`."""
    rule = RULES.get(func)
    if rule is None:
        if torch.Tag.pointwise not in func.tags:
            return NotImplemented
        rule = functools.partial(_pointwise, func)
    try:
        return rule(*args, **kwargs)
    except (RuntimeError, TypeError, IndexError):  # PyTorch says better what is wrong
        return NotImplemented


def _empty(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=META)


@functools.cache
def _one(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor with one element, to learn from the real operator which dtype it gives."""
    return torch.ones([1] * rank, dtype=torch.float32).to(dtype)


def _small(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _one(value.dim(), value.dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(_small(item) for item in value)
    return value


def _pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    if any(isinstance(a, (list, tuple)) for a in args):
        return NotImplemented
    shape = _broadcast([t.shape for t in tensors])
    sample = func(*(_small(a) for a in args), **{k: _small(v) for k, v in kwargs.items()})
    if not isinstance(sample, torch.Tensor) or not all(t.is_contiguous() for t in tensors if t.dim() == len(shape)):
        return NotImplemented
    return _empty(shape, sample.dtype)


def _broadcast(shapes: list[torch.Size]) -> list[int]:
    """The common shape. Raises `IndexError` if there is none."""
    rank = max(len(shape) for shape in shapes)
    common = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and common[axis] not in (1, size):
                raise IndexError("shapes do not fit")
            common[axis] = size if size != 1 else common[axis]
    return common


def _like(tensor: torch.Tensor, *args: Any, dtype: Any = None, memory_format: Any = None, **kwargs: Any) -> Any:
    if not tensor.is_contiguous() or memory_format not in (None, torch.preserve_format, torch.contiguous_format):
        return NotImplemented
    return _empty(tensor.shape, dtype or tensor.dtype)


def _copy(tensor: torch.Tensor, *, dtype: Any = None, memory_format: Any = None, **kwargs: Any) -> Any:
    return _like(tensor, dtype=dtype, memory_format=memory_format)


def _clone(tensor: torch.Tensor, *, memory_format: Any = None) -> Any:
    if memory_format == torch.contiguous_format:
        return _empty(tensor.shape, tensor.dtype)
    return _like(tensor, memory_format=memory_format)


def _softmax(tensor: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    return _like(tensor, dtype=torch.float32 if half_to_float else tensor.dtype)


def _mm(left: torch.Tensor, right: torch.Tensor) -> Any:
    if left.dim() != 2 or right.dim() != 2 or left.shape[1] != right.shape[0] or left.dtype != right.dtype:
        return NotImplemented
    return _empty((left.shape[0], right.shape[1]), left.dtype)


def _bmm(left: torch.Tensor, right: torch.Tensor) -> Any:
    if left.dim() != 3 or right.dim() != 3 or left.dtype != right.dtype:
        return NotImplemented
    if left.shape[0] != right.shape[0] or left.shape[2] != right.shape[1]:
        return NotImplemented
    return _empty((left.shape[0], left.shape[1], right.shape[2]), left.dtype)


def _total(func: Any) -> Callable[..., Any]:
    """A reduction to one element."""

    def reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return _empty((), func(_one(tensor.dim(), tensor.dtype), *args, **kwargs).dtype)

    return reduce


def _reduction(func: Any) -> Callable[..., Any]:
    """A reduction over some axes, `func(tensor, dim, keepdim)`; one result or several of the same shape."""

    def reduce(tensor: torch.Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        rank = tensor.dim()
        dims = range(rank) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
        if not tensor.is_contiguous() or rank == 0 or not all(-rank <= d < rank for d in dims):
            return NotImplemented
        reduced = {d % rank for d in dims}
        sample = func(_one(rank, tensor.dtype), dim, keepdim, **kwargs)
        sizes = [1 if i in reduced else n for i, n in enumerate(tensor.shape) if keepdim or i not in reduced]
        if isinstance(sample, torch.Tensor):
            return _empty(sizes, sample.dtype)
        return tuple(_empty(sizes, item.dtype) for item in sample)

    return reduce


RULES: dict[Any, Callable[..., Any]] = {
    aten.mm.default: _mm,
    aten.bmm.default: _bmm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _softmax,
    aten._to_copy.default: _copy,
    aten.clone.default: _clone,
    aten.empty_like.default: _like,
    aten.zeros_like.default: _like,
    aten.ones_like.default: _like,
    aten.full_like.default: _like,
    aten.rand_like.default: _like,
    aten.randn_like.default: _like,
}
RULES |= {f: _reduction(f) for f in (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default)}
RULES |= {f: _reduction(f) for f in (aten.max.dim, aten.min.dim, aten.argmax.default, aten.any.dim, aten.all.dim)}
RULES |= {f: _total(f) for f in (aten.sum.default, aten.mean.default, aten.max.default, aten.min.default)}
RULES |= {f: _total(f) for f in (aten.any.default, aten.all.default)}
