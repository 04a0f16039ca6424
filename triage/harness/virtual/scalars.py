"""Python numbers read from made-up tensors: they behave as numbers, and a comparison with them decides nothing."""

from __future__ import annotations

from typing import Any

from . import truth
from .numbers import VirtualFloat, VirtualInt
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
