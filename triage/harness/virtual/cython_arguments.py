"""The checks of the cython backend (`CythonKernelWrapper.forward` of tilelang 0.1.15) on the arguments of a kernel."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from .optional_imports import is_placeholder
from .raisers import cython, raised_in
from .signature import Binding, Parameter, Signature, bind_scalar, is_var, logical_shape, logical_strides
from .tensors import is_guessed

#: where the wrapper calls its checks
CHECKS = cython("forward", "self._check_static_shape(tensor_list)")


def check_cython(kernel: Signature, arguments: tuple[Any, ...]) -> Binding:
    """Check a call as the cython adapter does. Raises `ValueError`."""
    total = len(kernel.parameters)
    if len(arguments) + len(kernel.outputs) != total:
        passed, outputs = len(arguments), len(kernel.outputs)
        text = f"Expected {total} inputs, got {passed + outputs} with {passed} inputs and {outputs} outputs"
        raise raised_in(ValueError(text), cython("forward", "inputs, got {len(inputs)"))
    given = dict(zip(kernel.inputs, arguments, strict=True))
    for value in given.values():
        if value is not None and not isinstance(value, (torch.Tensor, int, float, bool)) and not is_placeholder(value):
            raise raised_in(
                ValueError(f"Unsupported tensor type: {type(value)}"), cython("forward", "Unsupported tensor type")
            )
    tensors = [(kernel.parameters[i], v) for i, v in given.items() if isinstance(v, torch.Tensor) and not is_guessed(v)]
    buffers = [(p, v) for p, v in tensors if p.buffer is not None]
    for parameter, tensor in buffers:
        if not tensor.is_cuda:
            name = parameter.buffer.name
            text = f"Buffer device mismatch for parameter {name}: expected cuda, got {tensor.device}"
            raise raised_in(ValueError(text), CHECKS, cython("_check_buffer_device", "Buffer device mismatch"))
    for parameter, tensor in buffers:
        if tensor.dtype != parameter.torch_dtype:
            name, dtype = parameter.buffer.name, parameter.torch_dtype
            text = f"Buffer dtype mismatch for parameter {name}: expected {dtype}, got {tensor.dtype}"
            raise raised_in(ValueError(text), CHECKS, cython("_check_buffer_dtype", "Buffer dtype mismatch"))
    for parameter, tensor in buffers:
        _check_cython_shape(parameter, tensor)
    for parameter, tensor in buffers:
        _check_cython_strides(parameter, tensor)
    return _bind_all(kernel, given)


def _check_cython_shape(parameter: Parameter, tensor: torch.Tensor) -> None:
    text = f"Static shape mismatch for parameter {parameter.buffer.name}: expected"
    if tensor.dim() != len(parameter.shape):
        _wrong_shape(f"{text} {len(parameter.shape)} dimensions, got {tensor.dim()}")
    for axis, dimension in enumerate(parameter.shape):
        if isinstance(dimension, int) and tensor.shape[axis] != dimension:
            _wrong_shape(f"{text} {dimension} at index {axis}, got {tensor.shape[axis]}")


def _wrong_shape(text: str) -> NoReturn:
    raise raised_in(ValueError(text), CHECKS, cython("_check_static_shape", "Static shape mismatch"))


def _check_cython_strides(parameter: Parameter, tensor: torch.Tensor) -> None:
    for axis, stride in enumerate(parameter.strides):
        if isinstance(stride, int) and tensor.shape[axis] != 1 and tensor.stride(axis) != stride:
            text = f"Static stride mismatch for parameter {parameter.buffer.name}: "
            text += f"expected {stride} at index {axis}, got {tensor.stride(axis)}"
            raise raised_in(ValueError(text), CHECKS, cython("_check_static_strides", "Static stride mismatch"))


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
