"""NumPy arrays of made-up values: an array that remembers it, through views and arithmetic."""

from __future__ import annotations

import functools
from typing import Any

from .tensors import VirtualTensor, values


@functools.cache
def _kind() -> Any:
    import numpy

    class VirtualArray(numpy.ndarray):
        """An array whose values are made up."""

        def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
            from .numbers import VirtualFloat

            if return_scalar and array.ndim == 0:
                value = array.item()
                return VirtualFloat(value) if isinstance(value, float) else value
            return array.view(VirtualArray)

        def __bool__(self) -> bool:
            from . import truth

            if self.size != 1:
                return super().__bool__()
            return truth.decide("bool(array)", bool(self.view(numpy.ndarray)))

    return VirtualArray


def from_tensor(tensor: VirtualTensor) -> Any:
    """The values of a tensor as an array; marked if they are made up."""
    plain = values(tensor).detach().numpy()
    return plain.view(_kind()) if tensor.tainted else plain


def is_made_up(value: Any) -> bool:
    return type(value).__name__ == "VirtualArray"
