"""Comparisons with made-up values never fail and never match: they are recorded as virtual.

A comparison of real values (CPU tensors, or small tensors of the device that no launch wrote) behaves as always.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from . import arrays, light_compiler, optional_imports, session
from .numbers import VirtualFloat, VirtualInt
from .patching import replace_everywhere
from .tensors import VirtualTensor, is_guessed, is_tainted


def made_up(function: str, *operands: Any) -> None:
    """Record a comparison of made-up values."""
    shapes = " and ".join(str(tuple(t.shape)) for t in operands if hasattr(t, "shape"))
    session.supposes(operands)
    session.comparison(function, f"not compared: values of {shapes or 'the operands'} were not computed by a device")


def holds_made_up(value: Any) -> bool:
    """Whether a value, or an element of a sequence or mapping, is made up."""
    if isinstance(value, torch.Tensor):
        return is_tainted(value)
    if isinstance(value, (list, tuple)):
        return any(holds_made_up(item) for item in value)
    if isinstance(value, dict):
        return any(holds_made_up(item) for item in value.values())
    return (
        arrays.is_made_up(value)
        or optional_imports.is_placeholder(value)
        or isinstance(value, (VirtualFloat, VirtualInt))
    )


def unless_made_up(function: Callable[..., Any], name: str, answer: Any) -> Callable[..., Any]:
    """`function`, except that with a made-up operand it records the comparison and returns `answer`."""

    @functools.wraps(function)
    def compare(*args: Any, **kwargs: Any) -> Any:
        operands = [*args[:2], *(kwargs[k] for k in OPERANDS if k in kwargs)]
        if not any(holds_made_up(value) for value in operands):
            return function(*(_plain(a) for a in args), **{k: _plain(v) for k, v in kwargs.items()})
        _same_shapes(operands)
        made_up(name, *operands)
        return answer

    return compare


OPERANDS = ("actual", "expected", "desired", "x", "y", "a", "b", "input", "other", "tensor_a", "tensor_b")


def _plain(value: Any) -> Any:
    """A real tensor of the device as the CPU tensor it is, for code that checks devices in C++."""
    return value.payload.detach() if isinstance(value, VirtualTensor) and not value.tainted else value


def _same_shapes(operands: list[Any]) -> None:
    """Shapes are never made up: tensors that differ in shape do not agree."""
    tensors = [t for t in operands if isinstance(t, torch.Tensor)]
    if any(is_guessed(t) for t in tensors):
        return
    if len(tensors) == 2 and tensors[0].shape != tensors[1].shape:
        left, right = (torch.Size(t.shape) for t in tensors)
        raise AssertionError(f"The values for attribute 'shape' do not match: {left} != {right}.")


def install_torch(testing: Any) -> None:
    light_compiler.compare_without_distributed()
    testing.assert_close = unless_made_up(testing.assert_close, "torch.testing.assert_close", None)


def install_tilelang() -> None:
    for package in ("tilelang.utils.tensor", "tilelang.testing"):
        original = getattr(sys.modules.get(package), "torch_assert_close", None)
        if original is not None:
            replacement = unless_made_up(original, "tilelang.testing.torch_assert_close", True)
            replace_everywhere("tilelang", "torch_assert_close", original, replacement)


def install_numpy(numpy: Any) -> None:
    """NumPy's tests, which answer."""
    for name in ("allclose", "array_equal", "array_equiv"):
        setattr(numpy, name, unless_made_up(getattr(numpy, name), f"numpy.{name}", True))


def install_numpy_testing(testing: Any) -> None:
    """NumPy's assertions."""
    for name in (
        "allclose",
        "array_equal",
        "array_almost_equal",
        "almost_equal",
        "equal",
        "array_less",
        "approx_equal",
    ):
        original = getattr(testing, f"assert_{name}", None)
        if original is not None:
            setattr(testing, f"assert_{name}", unless_made_up(original, f"numpy.testing.assert_{name}", None))
