"""Python numbers read from made-up tensors: they behave as numbers, and a comparison with them decides nothing."""

from __future__ import annotations

from typing import Any

from . import truth
from .tensors import VirtualTensor, values


def of(tensor: VirtualTensor) -> Any:
    """`tensor.item()`: the value, marked if it is made up. Raises as PyTorch does for more than one element."""
    if tensor.numel() != 1:
        raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
    value = 1 if tensor.payload.is_meta else tensor.payload.item()
    if not tensor.tainted:
        return value
    if tensor.dtype.is_floating_point:
        return VirtualFloat(value)
    if tensor.dtype.is_complex:
        return complex(value)
    if str(tensor.dtype) == "torch.bool":
        return truth.of_tensor(tensor)
    return VirtualInt(value)


def nested(tensor: VirtualTensor) -> Any:
    """`tensor.tolist()`."""
    if tensor.dim() == 0:
        return of(tensor)
    made_up = tensor.tainted

    def mark(value: Any) -> Any:
        if isinstance(value, list):
            return [mark(item) for item in value]
        if isinstance(value, float):
            return VirtualFloat(value)
        return VirtualInt(value) if isinstance(value, int) and not isinstance(value, bool) else value

    plain = values(tensor).tolist()
    return mark(plain) if made_up else plain


def _compared(name: str, sense: bool) -> Any:
    def compare(self: Any, other: Any) -> Any:
        base = getattr(self.BASE, name)(self, other)
        if base is NotImplemented:
            return base
        return truth.of_numbers(name, self, other, bool(base), sense)

    return compare


def _computed(name: str) -> Any:
    def compute(self: Any, *others: Any) -> Any:
        result = getattr(self.BASE, name)(self, *others)
        if type(result) is float:
            return VirtualFloat(result)
        if type(result) is int:
            return VirtualInt(result)
        return result

    return compute


class VirtualFloat(float):
    """A float whose value is made up."""

    BASE = float

    __hash__ = float.__hash__


class VirtualInt(int):
    """An integer whose value is made up."""

    BASE = int

    __hash__ = int.__hash__


for _name, _sense in {
    "__lt__": True,
    "__le__": True,
    "__eq__": True,
    "__ne__": False,
    "__gt__": False,
    "__ge__": False,
}.items():
    for _kind in (VirtualFloat, VirtualInt):
        setattr(_kind, _name, _compared(_name, _sense))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs", "round"):
    for _spelled in (f"__{_name}__", f"__r{_name}__"):
        for _kind in (VirtualFloat, VirtualInt):
            if hasattr(_kind.BASE, _spelled):
                setattr(_kind, _spelled, _computed(_spelled))
