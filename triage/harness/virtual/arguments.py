"""The checks a compiled kernel makes on its arguments, in the order and with the words of tilelang 0.1.15.

The tvm_ffi backend checks in generated host code (`MakePackedAPI`, `TVMFFIABIBuilder::BindDLTensors`). That is followed
here on shapes alone, because a wrong call is the user's fault and has to be reported on a machine without a GPU as well.
What tilelang leaves to the hardware is not checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NoReturn

import torch

from .optional_imports import is_placeholder
from .raisers import CALL, COUNT, HOST_CODE, raised_in
from .signature import Binding, Parameter, Signature, bind_scalar, is_var, logical_shape, logical_strides, same_var
from .tensors import is_guessed

#: DLPack device types, as the messages print them
CPU_TYPE, CUDA_TYPE = 1, 2


def check_tvm_ffi(kernel: Signature, arguments: tuple[Any, ...]) -> Binding:
    """Check a call as the tvm_ffi adapter and the generated host code do. Raises `ValueError` or `RuntimeError`."""
    if len(arguments) != len(kernel.inputs):
        text = f"Kernel expected {len(kernel.inputs)} inputs, but {len(arguments)} are provided."
        raise raised_in(ValueError(text), COUNT)
    given = dict(zip(kernel.inputs, (as_tensor(a) for a in arguments), strict=True))
    for index, value in given.items():
        _check_kind(kernel, kernel.parameters[index], value)
    if kernel.allocates and kernel.outputs:
        anchor = next((v for v in given.values() if isinstance(v, torch.Tensor)), None)
        if anchor is not None and device_type(anchor) != CUDA_TYPE:
            _fail(f"{kernel.kernel}: allocator anchor has the wrong device type", device_type(anchor), CUDA_TYPE)
    binding = Binding()
    for index, value in given.items():
        bind_scalar(kernel.parameters[index], value, binding)
    buffers = [
        (p, given[i])
        for i, p in enumerate(kernel.parameters)
        if i in given and p.buffer is not None and not is_placeholder(given[i]) and not is_guessed(given[i])
    ]
    for parameter, value in buffers:
        if value is None and parameter.used:
            _fail(f"{kernel.kernel}.{parameter.name} is expected to have non-NULL pointer")
    for parameter, tensor in buffers:
        _check_rank_and_bind(kernel, parameter, tensor, binding, buffers)
    for parameter, tensor in buffers:
        if tensor is not None:
            for problem in _problems(kernel, parameter, tensor, binding):
                _fail(problem)
    return binding


def as_tensor(value: Any) -> Any:
    """What the FFI makes of an argument: arrays that speak DLPack arrive as tensors of the CPU."""
    if isinstance(value, torch.Tensor) or not hasattr(value, "__dlpack__"):
        return value
    try:
        return torch.utils.dlpack.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise raised_in(error, CALL, HOST_CODE)  # noqa: B904 - the error itself, seen where the FFI raises it


def device_type(tensor: torch.Tensor) -> int:
    return CUDA_TYPE if tensor.is_cuda else CPU_TYPE


def _fail(text: str, expected: int | None = None, got: int | None = None) -> NoReturn:
    """Raise as generated host code does. For an equality it prints left side and right side as expected and got."""
    text = text if expected is None else f"{text}; expected: {expected}, got: {got}"
    raise raised_in(RuntimeError(text), CALL, HOST_CODE)


def _check_kind(kernel: Signature, parameter: Parameter, value: Any) -> None:
    if is_placeholder(value):
        return
    if parameter.buffer is not None or parameter.dtype == "handle":
        if isinstance(value, (bool, int, float, torch.dtype)) or (isinstance(value, str) and len(value) < 8):
            _fail(f"kernel {kernel.kernel} input {parameter.name} expected pointer or tensor handle")
        return
    wanted, kinds = _scalar_kind(parameter.dtype)
    if not isinstance(value, kinds):
        _fail(f"kernel {kernel.kernel} scalar {parameter.name} expected {wanted}")


def _scalar_kind(dtype: str) -> tuple[str, tuple[type, ...]]:
    if dtype == "bool":
        return "boolean", (bool, int)
    if dtype.startswith(("int", "uint")):
        return "integer", (int, bool)
    return "float", (float, int, bool)


def _check_rank_and_bind(
    kernel: Signature, parameter: Parameter, tensor: Any, binding: Binding, buffers: list[tuple[Parameter, Any]]
) -> None:
    rank = len(parameter.shape)
    text = f"kernel {kernel.kernel} input {parameter.name} ndim mismatch, expected {rank}"
    if tensor is not None and not isinstance(tensor, torch.Tensor):
        _fail(text)  # host code reads any other object as if it were a tensor, and meets some number of dimensions
    if tensor is not None and tensor.dim() != rank:
        _fail(text, tensor.dim(), rank) if parameter.used else _fail(text)
    for axis, dimension in enumerate(parameter.shape):
        if isinstance(dimension, int) or binding.evaluate(dimension) is not None or not is_var(dimension):
            continue
        carriers = [(p, t) for p, t in buffers if any(same_var(d, dimension) for d in p.shape)]
        if len(carriers) > 1 and all(t is None for _, t in carriers):
            names = ", ".join(f"{kernel.kernel}.{p.name}" for p, _ in carriers)
            _fail(f"Symbolic shape variable {dimension} requires at least one non-null buffer among: {names}")
        if tensor is not None:
            binding.set(dimension, logical_shape(parameter, tensor)[axis])
    if tensor is not None:
        strides = logical_strides(parameter, tensor)
        for axis, stride in enumerate(parameter.strides):
            if not isinstance(stride, int) and is_var(stride) and not binding.knows(stride):
                binding.set(stride, strides[axis])


def _problems(kernel: Signature, parameter: Parameter, tensor: torch.Tensor, binding: Binding) -> Iterator[str]:
    """What the generated checks of one argument say, in their order."""
    prefix = f"kernel {kernel.kernel} input {parameter.name}"

    def violated(what: str, left: int, right: int, equality: bool = True) -> str:
        text = f"{prefix} {what} violates packed ABI constraint"
        return f"{text}; expected: {left}, got: {right}" if equality and parameter.used else text

    packed = parameter.bits < 8
    if packed:
        expected = [binding.evaluate(d) for d in parameter.shape]
        bits = tensor.numel() * tensor.element_size() * 8
        if None not in expected and bits != math.prod(expected) * parameter.bits:  # type: ignore[type-var, arg-type]
            yield f"{prefix} is a subtype, but total bits mismatch violates packed ABI constraint"
    elif tensor.dtype not in parameter.accepts:
        yield f"{prefix} dtype mismatch, expected {parameter.dtype}"
    shape = logical_shape(parameter, tensor)
    for axis, dimension in enumerate(parameter.shape):
        wanted = binding.evaluate(dimension)
        if wanted is not None and wanted != shape[axis]:
            sides = (shape[axis], wanted) if isinstance(dimension, int) else (wanted, shape[axis])
            yield violated(f"shape[{axis}]", *sides)
    yield from _stride_problems(parameter, tensor, binding, violated)
    if not parameter.strides and not packed and not _is_compact(tensor):
        text = "expected to be compact array, but got non-compact strides"
        yield f"{kernel.kernel}.{parameter.name}.strides: {text}"
    if device_type(tensor) != CUDA_TYPE:
        text = f"{prefix} device_type mismatch, expected cuda"
        yield f"{text}; expected: {device_type(tensor)}, got: {CUDA_TYPE}" if parameter.used else text


def _stride_problems(parameter: Parameter, tensor: torch.Tensor, binding: Binding, violated: Any) -> Iterator[str]:
    strides, shape = logical_strides(parameter, tensor), logical_shape(parameter, tensor)
    for axis in reversed(range(len(parameter.strides))):
        wanted = binding.evaluate(parameter.strides[axis])
        if wanted not in (None, 0, strides[axis]) and shape[axis] != 1:
            yield violated(f"strides[{axis}]", strides[axis], wanted, isinstance(parameter.shape[axis], int))


def _is_compact(tensor: torch.Tensor) -> bool:
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if size != 1 and expected not in (0, stride):
            return False
        expected *= size
    return True
