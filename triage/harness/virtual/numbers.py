"""Numbers read from made-up tensors: they compute as numbers do, and a comparison with them decides nothing."""

from __future__ import annotations

from typing import Any

from . import truth


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
        if result is NotImplemented and type(others[0]).__module__ == "numpy" and not getattr(others[0], "ndim", 0):
            result = getattr(self.BASE, name)(self, others[0].item())  # a scalar of NumPy would make one of its own
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
