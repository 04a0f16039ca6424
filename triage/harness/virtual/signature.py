"""What a kernel wants from its caller, read from its PrimFunc, and the values one call gives to its symbols."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch


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


def is_var(value: Any) -> bool:
    return type(value).__name__ in ("Var", "SizeVar")


def same_var(left: Any, right: Any) -> bool:
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


def bind_scalar(parameter: Parameter, value: Any, binding: Binding) -> None:
    """Scalars may stand in shapes if they are integers."""
    if parameter.buffer is None and isinstance(value, int) and parameter.dtype.startswith(("int", "uint")):
        binding.set(parameter.var, value)
