"""How far values are off their float64 values: of both sides of a comparison, and on the way to one of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .values import significand, wide

#: elements of a comparison that are looked at together
CHUNK = 1 << 22
#: an error is clearly smaller than another from this factor on, where no tolerance is known
CLEAR = 4.0
#: the relative error of values that are not finite where they should be
LOST = 1e9
#: places that are told, those first where the error grew most
PLACES = 3

#: file, line, operator
Place = tuple[str, int, str]


@dataclass(frozen=True)
class History:
    """How an error came about: its size now, rms over the rms of the values, and by how much it grew where, as logarithms.

    Rounding to the type of a result is no growth: what counts is how far an error rises above that, and above what the inputs
    had, as it does where large numbers cancel, where a long sum is rounded at each step, or where a type overflows.
    """

    error: float = 0.0
    growth: Mapping[Place, float] = field(default_factory=dict)

    def after(self, value: torch.Tensor, shadow: torch.Tensor, place: Place | None) -> History:
        """What it becomes by an operator that made `value` and `shadow`."""
        error = deviation(value, shadow)
        if error is None:
            return self
        grown = error / max(self.error, 2.0 ** -significand(value.dtype))
        if grown <= 1.0 or place is None:
            return History(error, self.growth)
        return History(error, {**self.growth, place: self.growth.get(place, 0.0) + math.log(grown)})

    def told(self) -> list[dict[str, Any]]:
        """The lines where the error grew most, each with the factor and its part of the growth on a logarithmic scale."""
        lines: dict[tuple[str, int], float] = defaultdict(float)
        for (file, line, _), by in self.growth.items():
            lines[file, line] += by
        total = sum(lines.values())
        most = sorted(lines.items(), key=lambda item: -item[1])[:PLACES]
        return [
            {
                "file": file, "line": line, "operator": self._operator(file, line),
                "factor": math.exp(min(by, 700.0)), "share": by / total,
            }
            for (file, line), by in most
        ]  # fmt: skip

    def _operator(self, file: str, line: int) -> str:
        there = {place[2]: by for place, by in self.growth.items() if place[:2] == (file, line)}
        return max(there, key=lambda name: there[name])


def deviation(value: torch.Tensor, shadow: torch.Tensor) -> float | None:
    """The rms error of some values over their rms; None where there are none, or all of them should be zero."""
    here = value.to(shadow.dtype)
    error = torch.where(here == shadow, 0.0, (here - shadow).abs())
    size = shadow.abs()
    known = size.isfinite()
    if bool((known & error.isfinite().logical_not()).any()):
        return LOST
    scale = float(size[known].square().sum())
    return math.sqrt(float(error[known].square().sum()) / scale) if scale else None


class Measured:
    """Errors of two sides against an exact value, gathered part by part.

    Errors are absolute: `rms` and `max` of the finite ones, `nonfinite` counts the others, `outside` those above
    `atol + rtol * |exact value|`. `known` is the share of elements whose exact value is a number. `wrong` counts, of the
    elements that the comparison calls wrong, those where only one side is right, both, or none of them.
    """

    SIDES = ("actual", "expected")

    def __init__(self, rtol: float | None, atol: float | None) -> None:
        self.tolerance = None if rtol is None or atol is None else (rtol, atol)
        self.count = self.known = self.finite = 0
        self.square = 0.0
        self.sides = {
            name: {"square": 0.0, "finite": 0, "max": 0.0, "nonfinite": 0, "outside": 0} for name in self.SIDES
        }
        self.wrong: dict[str, int] | None = None

    def add(
        self, actual: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor, wrong: torch.Tensor | None
    ) -> None:
        """Take in some elements of all three, and of the mask of those that the comparison calls wrong."""
        sides = [side.to(wide(side.dtype)) for side in (actual, expected)]
        exact = exact.to(sides[0].dtype)
        known = exact.isnan().logical_not_()
        errors = [torch.where(side == exact, 0.0, (side - exact).abs()) for side in sides]
        size = exact.abs()
        finite = size[known & size.isfinite()]
        self.count += known.numel()
        self.known += int(known.sum())
        self.finite += finite.numel()
        self.square += float(finite.square().sum())
        bound = None if self.tolerance is None else size.mul(self.tolerance[0]).add_(self.tolerance[1])
        fits = _fitting(errors, bound)
        for name, error, fit in zip(self.SIDES, errors, fits, strict=True):
            side = self.sides[name]
            numbers = error[known & error.isfinite()]
            side["square"] += float(numbers.square().sum())
            side["finite"] += numbers.numel()
            side["max"] = max(side["max"], float(numbers.max()) if numbers.numel() else 0.0)
            side["nonfinite"] += int((known & error.isfinite().logical_not()).sum())
            side["outside"] += int((known & ~fit).sum())
        if wrong is not None:
            counts = _sides(wrong & known, *fits)
            self.wrong = {name: count + (self.wrong or {}).get(name, 0) for name, count in counts.items()}

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"known": self.known / self.count if self.count else 0.0}
        told["rms"] = math.sqrt(self.square / self.finite) if self.finite else 0.0
        for name, side in self.sides.items():
            rms = math.sqrt(side["square"] / side["finite"]) if side["finite"] else 0.0
            outside = None if self.tolerance is None else side["outside"]
            told[name] = {"rms": rms, "max": side["max"], "nonfinite": side["nonfinite"], "outside": outside}
        return told if self.wrong is None else told | {"wrong": self.wrong}


def _fitting(errors: list[torch.Tensor], bound: torch.Tensor | None) -> list[torch.Tensor]:
    """Where each side is right: inside the tolerance, or, without one, not clearly farther off than the other."""
    if bound is not None:
        return [error <= bound for error in errors]
    one, other = errors
    return [one.isfinite() & ~(other <= one / CLEAR), other.isfinite() & ~(one <= other / CLEAR)]


def _sides(wrong: torch.Tensor, actual: torch.Tensor, expected: torch.Tensor) -> dict[str, int]:
    counts = {
        "count": wrong,
        "actual_right": wrong & actual & ~expected,
        "expected_right": wrong & expected & ~actual,
        "both": wrong & actual & expected,
        "none": wrong & ~actual & ~expected,
    }
    return {name: int(chosen.sum()) for name, chosen in counts.items()}
