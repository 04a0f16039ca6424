"""NumPy arrays of the host that came of tensors: of made-up values one that remembers it, through views and arithmetic, and in twin mode of
others one that tells what the script subtracts from it."""

from __future__ import annotations

import functools
from typing import Any

from . import session
from .tensors import VirtualTensor, values

#: what comparing functions answer where values are made up: that there is no fault
SENSES = {"equal": True, "less": True, "less_equal": True, "isfinite": True} | dict.fromkeys(
    ("not_equal", "greater", "greater_equal", "isnan", "isinf"), False
)


@functools.cache
def _kinds() -> tuple[Any, Any]:
    import numpy

    class TellingArray(numpy.ndarray):
        """An array that tells of the functions it is given to. What they make of it is a plain one."""

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
            if method == "__call__":
                session.sees_arrays(ufunc.__name__, inputs)
            filled = named.get("out")
            if filled is not None:
                named["out"] = tuple(map(_plain, filled))
            made = getattr(ufunc, method)(*map(_plain, inputs), **{key: _plain(value) for key, value in named.items()})
            if filled is not None:
                return filled[0] if len(filled) == 1 else filled
            return tuple(map(self._kept, made)) if isinstance(made, tuple) else self._kept(made)

        def _kept(self, made: Any) -> Any:
            return made

        def __reduce__(self) -> Any:  # for whoever pickles or copies it, another process among them
            return self.view(numpy.ndarray).__reduce__()

    class VirtualArray(TellingArray):
        """An array whose values are made up: element by element it agrees with whatever it is compared with."""

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
            made = super().__array_ufunc__(ufunc, method, *inputs, **named)
            if method == "__call__" and ufunc.__name__ in SENSES and isinstance(made, numpy.ndarray):
                made[...] = SENSES[ufunc.__name__]
            return made

        def _kept(self, made: Any) -> Any:
            from .numbers import VirtualFloat

            if isinstance(made, numpy.ndarray):
                return made.view(VirtualArray)
            return VirtualFloat(made) if isinstance(made, numpy.floating) else made

        def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
            return self._kept(array[()] if return_scalar else array)

        def __bool__(self) -> bool:
            from . import truth

            if self.size != 1:
                return super().__bool__()
            return truth.decide("bool(array)", bool(self.view(numpy.ndarray)))

    def _plain(value: Any) -> Any:
        return value.view(numpy.ndarray) if isinstance(value, TellingArray) else value

    return TellingArray, VirtualArray


def from_tensor(tensor: VirtualTensor) -> Any:
    """The values of a tensor as an array; marked if they are made up."""
    plain = values(tensor).detach().numpy()
    return plain.view(_kinds()[1]) if tensor.tainted else plain


def telling(array: Any) -> Any:
    """An array that tells what the script subtracts from it, over the memory of a plain one."""
    return array.view(_kinds()[0])


def is_made_up(value: Any) -> bool:
    return type(value).__name__ == "VirtualArray"
