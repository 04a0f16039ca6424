"""The checks of the cython backend (`CythonKernelWrapper.forward` of tilelang 0.1.15) on the arguments of a kernel."""

from __future__ import annotations

from typing import Any

import torch

from .optional_imports import is_placeholder
from .signature import Binding, Parameter, Signature, bind_scalar, is_var, logical_shape, logical_strides
from .tensors import is_guessed


def check_cython(kernel: Signature, arguments: tuple[Any, ...]) -> Binding:
    """Check a call as the cython adapter does. Raises `ValueError`."""
    total = len(kernel.parameters)
    if len(arguments) + len(kernel.outputs) != total:
        raise ValueError(
            f"Expected {total} inputs, got {len(arguments) + len(kernel.outputs)} with {len(arguments)} inputs "
            f"and {len(kernel.outputs)} outputs"
        )
    given = dict(zip(kernel.inputs, arguments, strict=True))
    for value in given.values():
        if value is not None and not isinstance(value, (torch.Tensor, int, float, bool)) and not is_placeholder(value):
            raise ValueError(f"Unsupported tensor type: {type(value)}")
    tensors = [(kernel.parameters[i], v) for i, v in given.items() if isinstance(v, torch.Tensor) and not is_guessed(v)]
    buffers = [(p, v) for p, v in tensors if p.buffer is not None]
    for parameter, tensor in buffers:
        if not tensor.is_cuda:
            name = parameter.buffer.name
            raise ValueError(f"Buffer device mismatch for parameter {name}: expected cuda, got {tensor.device}")
    for parameter, tensor in buffers:
        if tensor.dtype != parameter.torch_dtype:
            name, dtype = parameter.buffer.name, parameter.torch_dtype
            raise ValueError(f"Buffer dtype mismatch for parameter {name}: expected {dtype}, got {tensor.dtype}")
    for parameter, tensor in buffers:
        _check_cython_shape(parameter, tensor)
    for parameter, tensor in buffers:
        _check_cython_strides(parameter, tensor)
    return _bind_all(kernel, given)


def _check_cython_shape(parameter: Parameter, tensor: torch.Tensor) -> None:
    text = f"Static shape mismatch for parameter {parameter.buffer.name}: expected"
    if tensor.dim() != len(parameter.shape):
        raise ValueError(f"{text} {len(parameter.shape)} dimensions, got {tensor.dim()}")
    for axis, dimension in enumerate(parameter.shape):
        if isinstance(dimension, int) and tensor.shape[axis] != dimension:
            raise ValueError(f"{text} {dimension} at index {axis}, got {tensor.shape[axis]}")


def _check_cython_strides(parameter: Parameter, tensor: torch.Tensor) -> None:
    for axis, stride in enumerate(parameter.strides):
        if isinstance(stride, int) and tensor.shape[axis] != 1 and tensor.stride(axis) != stride:
            raise ValueError(
                f"Static stride mismatch for parameter {parameter.buffer.name}: "
                f"expected {stride} at index {axis}, got {tensor.stride(axis)}"
            )


def _bind_all(kernel: Signature, given: dict[int, Any]) -> Binding:
    binding = Binding()
    for index, value in given.items():
        parameter = kernel.parameters[index]
        if parameter.buffer is None:
            bind_scalar(parameter, value, binding)
            continue
        if isinstance(value, torch.Tensor):
            sizes = zip(parameter.shape, logical_shape(parameter, value), strict=False)
            strides = zip(parameter.strides, logical_strides(parameter, value), strict=False)
            for dimension, size in (*sizes, *strides):
                if not isinstance(dimension, int) and is_var(dimension) and not binding.knows(dimension):
                    binding.set(dimension, size)
    return binding
