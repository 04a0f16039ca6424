"""The checks a compiled kernel makes on its arguments, in the order and with the words of tilelang 0.1.15.

The tvm_ffi backend checks in generated host code (`MakePackedAPI`, `TVMFFIABIBuilder::BindDLTensors`), the cython
backend in `CythonKernelWrapper.forward`. Both are followed here on shapes alone, because a wrong call is the user's
fault and has to be reported on a machine without a GPU as well. What tilelang leaves to the hardware is not checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .optional_imports import is_placeholder

#: DLPack device types, as the messages print them
CPU_TYPE, CUDA_TYPE = 1, 2


@dataclass
class Parameter:
    """One parameter of the PrimFunc. `shape` holds integers or TIR expressions; scalars have no `buffer`."""

    name: str
    var: Any
    dtype: str
    buffer: Any = None
    shape: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    used: bool = True
    accepts: frozenset[Any] = frozenset()
    torch_dtype: Any = None

    @property
    def bits(self) -> int:
        return int(self.buffer.dtype.bits) * int(self.buffer.dtype.lanes)


@dataclass
class Signature:
    """What a kernel wants from its caller."""

    kernel: str
    parameters: list[Parameter]
    outputs: list[int]
    allocates: bool = False
    inputs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs = [i for i in range(len(self.parameters)) if i not in self.outputs]


def signature(func: Any, outputs: list[int]) -> Signature:
    """Read the signature of a PrimFunc; `outputs` are the normalized indices of what the kernel returns."""
    import tilelang.language as language
    from tvm import tirx

    used = _used(func, tirx)
    parameters = []
    for var in func.params:
        buffer = func.buffer_map.get(var)
        if buffer is None:
            parameters.append(Parameter(name=str(var.name), var=var, dtype=str(var.dtype)))
            continue
        parameters.append(
            Parameter(
                name=str(buffer.data.name),
                var=var,
                dtype=str(buffer.dtype),
                buffer=buffer,
                shape=tuple(_dimension(d, tirx) for d in buffer.shape),
                strides=tuple(_dimension(d, tirx) for d in buffer.strides),
                used=any(buffer.data.same_as(v) for v in used),
                accepts=_accepted(str(buffer.dtype), language),
                torch_dtype=language.dtype(buffer.dtype).as_torch(),
            )
        )
    name = str(func.attrs.get("global_symbol", "main")) if func.attrs else "main"
    return Signature(name, parameters, outputs)


def _used(func: Any, tirx: Any) -> list[Any]:
    """The variables that the body reads or writes through; a parameter that is not among them may be None."""
    found: dict[int, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Var):
            found[node.__hash__()] = node
        elif isinstance(node, (tirx.BufferLoad, tirx.BufferStore)):
            found[node.buffer.data.__hash__()] = node.buffer.data

    tirx.stmt_functor.post_order_visit(func.body, visit)
    return list(found.values())


def _dimension(value: Any, tirx: Any) -> Any:
    return int(value) if isinstance(value, (int, tirx.IntImm)) else value


def _accepted(dtype: str, language: Any) -> frozenset[Any]:
    """The PyTorch dtypes that may be passed for a TIR dtype."""
    names = {
        "bool": ("bool", "int8", "uint8"),
        "float8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"),
        "float8_e5m2": ("float8_e5m2", "float8_e5m2fnuz"),
        "tfloat32": ("float32",),
        "custom[tfloat32]32": ("float32",),
    }.get(dtype)
    if names is None:
        return frozenset({language.dtype(dtype).as_torch()})
    return frozenset(getattr(torch, name) for name in names if hasattr(torch, name))


class Binding:
    """The values that one call gives to the symbolic variables of a kernel."""

    def __init__(self) -> None:
        self.values: dict[Any, int] = {}

    def knows(self, var: Any) -> bool:
        return var in self.values

    def set(self, var: Any, value: int) -> None:
        self.values[var] = int(value)

    def evaluate(self, expression: Any) -> int | None:
        """The value of a dimension, or None while a variable in it is unknown."""
        if isinstance(expression, int):
            return expression
        if expression in self.values:
            return self.values[expression]
        from tvm import arith, tirx

        known = {var: tirx.IntImm(var.dtype, value) for var, value in self.values.items()}
        result = arith.Analyzer().simplify(tirx.stmt_functor.substitute(expression, known))
        return int(result) if isinstance(result, tirx.IntImm) else None


# --------------------------------------------------------------------------------------------------------
# tvm_ffi


def check_tvm_ffi(kernel: Signature, arguments: tuple[Any, ...]) -> Binding:
    """Check a call as the tvm_ffi adapter and the generated host code do. Raises `ValueError` or `RuntimeError`."""
    if len(arguments) != len(kernel.inputs):
        raise ValueError(f"Kernel expected {len(kernel.inputs)} inputs, but {len(arguments)} are provided.")
    given = dict(zip(kernel.inputs, (as_tensor(a) for a in arguments), strict=True))
    for index, value in given.items():
        _check_kind(kernel, kernel.parameters[index], value)
    if kernel.allocates and kernel.outputs:
        anchor = next((v for v in given.values() if isinstance(v, torch.Tensor)), None)
        if anchor is not None and device_type(anchor) != CUDA_TYPE:
            _fail(f"{kernel.kernel}: allocator anchor has the wrong device type", device_type(anchor), CUDA_TYPE)
    binding = Binding()
    for index, value in given.items():
        _bind_scalar(kernel.parameters[index], value, binding)
    buffers = [
        (p, given[i])
        for i, p in enumerate(kernel.parameters)
        if i in given and p.buffer is not None and not is_placeholder(given[i])
    ]
    for parameter, value in buffers:
        if value is None and parameter.used:
            _fail(f"{kernel.kernel}.{parameter.name} is expected to have non-NULL pointer")
    for parameter, tensor in buffers:
        _check_rank_and_bind(kernel, parameter, tensor, binding, buffers)
    for parameter, tensor in buffers:
        if tensor is not None:
            for problem in _problems(kernel, parameter, tensor, binding):
                raise RuntimeError(problem)
    return binding


def as_tensor(value: Any) -> Any:
    """What the FFI makes of an argument: arrays that speak DLPack arrive as tensors of the CPU."""
    if isinstance(value, torch.Tensor) or not hasattr(value, "__dlpack__"):
        return value
    return torch.utils.dlpack.from_dlpack(value)


def device_type(tensor: torch.Tensor) -> int:
    return CUDA_TYPE if tensor.is_cuda else CPU_TYPE


def _fail(text: str, expected: int | None = None, got: int | None = None) -> None:
    """Raise as generated host code does. For an equality it prints left side and right side as expected and got."""
    raise RuntimeError(text if expected is None else f"{text}; expected: {expected}, got: {got}")


def _check_kind(kernel: Signature, parameter: Parameter, value: Any) -> None:
    if is_placeholder(value):
        return
    if parameter.buffer is not None or parameter.dtype == "handle":
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) < 8):
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


def _bind_scalar(parameter: Parameter, value: Any, binding: Binding) -> None:
    """Scalars may stand in shapes if they are integers."""
    if parameter.buffer is None and isinstance(value, int) and parameter.dtype.startswith(("int", "uint")):
        binding.set(parameter.var, value)


def _check_rank_and_bind(
    kernel: Signature, parameter: Parameter, tensor: Any, binding: Binding, buffers: list[tuple[Parameter, Any]]
) -> None:
    rank = len(parameter.shape)
    if tensor is not None and tensor.dim() != rank:
        text = f"kernel {kernel.kernel} input {parameter.name} ndim mismatch, expected {rank}"
        _fail(text, tensor.dim(), rank) if parameter.used else _fail(text)
    for axis, dimension in enumerate(parameter.shape):
        if isinstance(dimension, int) or binding.evaluate(dimension) is not None or not _is_var(dimension):
            continue
        carriers = [(p, t) for p, t in buffers if any(_same(d, dimension) for d in p.shape)]
        if len(carriers) > 1 and all(t is None for _, t in carriers):
            names = ", ".join(f"{kernel.kernel}.{p.name}" for p, _ in carriers)
            _fail(f"Symbolic shape variable {dimension} requires at least one non-null buffer among: {names}")
        if tensor is not None:
            binding.set(dimension, logical_shape(parameter, tensor)[axis])
    if tensor is not None:
        strides = logical_strides(parameter, tensor)
        for axis, stride in enumerate(parameter.strides):
            if not isinstance(stride, int) and _is_var(stride) and not binding.knows(stride):
                binding.set(stride, strides[axis])


def _is_var(value: Any) -> bool:
    return type(value).__name__ in ("Var", "SizeVar")


def _same(left: Any, right: Any) -> bool:
    return not isinstance(left, int) and left.same_as(right)


def logical_shape(parameter: Parameter, tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape in elements of the kernel's dtype: elements of less than a byte are packed along the last axis."""
    shape = tuple(tensor.shape)
    if parameter.bits >= 8 or not shape:
        return shape
    return (*shape[:-1], shape[-1] * (8 // parameter.bits))


def logical_strides(parameter: Parameter, tensor: torch.Tensor) -> tuple[int, ...]:
    strides = tuple(tensor.stride())
    if parameter.bits >= 8 or not strides:
        return strides
    return (*(s * (8 // parameter.bits) for s in strides[:-1]), strides[-1])


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


# --------------------------------------------------------------------------------------------------------
# cython


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
    tensors = [(kernel.parameters[i], v) for i, v in given.items() if isinstance(v, torch.Tensor)]
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
            _bind_scalar(parameter, value, binding)
            continue
        if isinstance(value, torch.Tensor):
            sizes = zip(parameter.shape, logical_shape(parameter, value), strict=False)
            strides = zip(parameter.strides, logical_strides(parameter, value), strict=False)
            for dimension, size in (*sizes, *strides):
                if not isinstance(dimension, int) and _is_var(dimension) and not binding.knows(dimension):
                    binding.set(dimension, size)
    return binding
