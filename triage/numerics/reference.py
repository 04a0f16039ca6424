"""Whose fault a mismatch is, by the float64 value of the reference: the kernel's or that of the reference itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: An error is clearly smaller from this factor on. Two right computations in the same type differ by less.
CLEAR = 4.0
#: the part of the wrong elements that has to speak for one side, where a tolerance says who is wrong, and where none does
SHARE, SHARE_WITHOUT = 0.5, 0.9
#: the part of the growth of an error, as logarithms, from which one line is the place where it arises
MOST = 0.6
#: a growth by more is no number of rounding errors: something overflowed
LOST = 1e12
#: below this part of the elements, too little is known
KNOWN = 0.99


@dataclass(frozen=True)
class Side:
    """Errors against float64: rms of the finite ones, how many are not finite, how many above the tolerance (None without one)."""

    rms: float
    max: float
    nonfinite: int
    outside: int | None

    @property
    def bad(self) -> int:
        return self.nonfinite if self.outside is None else self.outside


@dataclass(frozen=True)
class Judgement:
    """`kind`: suspect (the reference is wrong or too coarse), right (it is not), unknown. Errors are rms, relative to the rms of the
    float64 values; None where some are not finite, or nothing is known. `reference` and `kernel` are they in words."""

    kind: str
    says: str
    reference_error: float | None = None
    kernel_error: float | None = None
    reference: str = ""
    kernel: str = ""


@dataclass(frozen=True)
class Growth:
    """A line of the reference at which most of its error arises: by `factor`, in an operator of PyTorch."""

    file: str
    line: int
    operator: str
    factor: float

    @property
    def words(self) -> str:
        return (
            f"grows {self.factor:.2g}-fold in `{self.operator}`"
            if self.factor < LOST
            else f"arises in `{self.operator}`"
        )


def judge(told: Mapping[str, Any]) -> Judgement:
    """Judge what the harness measured of both sides of a comparison against float64 (`Shadow.against`)."""
    if float(told.get("known") or 0.0) < KNOWN:
        return Judgement("unknown", f"no float64 value of the reference: {told.get('why') or 'too few are numbers'}")
    kernel, reference = (_side(told[name]) for name in ("actual", "expected"))
    scale = float(told.get("rms") or 0.0)
    kind, says = _decide(kernel, reference, told.get("wrong") or {})
    words = [_words(side, scale) for side in (reference, kernel)]
    return Judgement(
        kind, f"{says} (rms error: reference {words[0]}, kernel {words[1]})",
        _error(reference, scale), _error(kernel, scale), *words,
    )  # fmt: skip


def growth(told: Mapping[str, Any]) -> Growth | None:
    """Where the error of the reference arises, if that is one line."""
    first = next(iter(told.get("growth") or ()), None)
    if first is None or float(first["share"]) < MOST:
        return None
    return Growth(str(first["file"]), int(first["line"]), str(first["operator"]), float(first["factor"]))


def _decide(kernel: Side, reference: Side, wrong: Mapping[str, int]) -> tuple[str, str]:
    count = wrong.get("count", 0)
    if reference.outside is None:
        if not count:
            return "unknown", "no wrong element is known that could speak for one side"
        if wrong["actual_right"] >= SHARE_WITHOUT * count:
            return (
                "suspect",
                f"in {wrong['actual_right']} of {count} wrong elements the kernel is clearly nearer to float64",
            )
        if wrong["expected_right"] >= SHARE_WITHOUT * count:
            return (
                "right",
                f"in {wrong['expected_right']} of {count} wrong elements the reference is clearly nearer to float64",
            )
        return "unknown", "neither side is clearly nearer to float64"
    if not reference.bad and not kernel.bad:
        together = "; only their errors together are above it" if count else ""
        return "right", f"both sides agree with the reference in float64 within the tolerance{together}"
    if not reference.bad:
        return (
            "right",
            f"the reference agrees with its own value in float64; {kernel.bad} elements of the kernel do not agree with that",
        )
    if _clearly_better(kernel, reference) and wrong.get("actual_right", 0) >= SHARE * count:
        less = "agrees with it" if not kernel.bad else f"is so in {kernel.bad}"
        return "suspect", f"{reference.bad} elements of the reference are off its own float64 value, the kernel {less}"
    if _clearly_better(reference, kernel) and wrong.get("expected_right", 0) >= SHARE * count:
        return (
            "right",
            f"{kernel.bad} elements of the kernel are off the float64 value, and {reference.bad} of the reference",
        )
    return "unknown", f"both are off float64, the reference in {reference.bad} elements, the kernel in {kernel.bad}"


def _clearly_better(one: Side, other: Side) -> bool:
    fewer = one.bad * CLEAR <= other.bad and other.bad > 0
    return fewer and (one.bad == 0 or one.rms * CLEAR <= other.rms)


def _side(told: Mapping[str, Any]) -> Side:
    outside = told["outside"]
    return Side(
        float(told["rms"]), float(told["max"]), int(told["nonfinite"]), None if outside is None else int(outside)
    )


def _error(side: Side, scale: float) -> float | None:
    return side.rms / scale if scale and not side.nonfinite else None


def _words(side: Side, scale: float) -> str:
    if side.nonfinite:
        return f"{side.nonfinite} elements not finite"
    relative = _error(side, scale)
    return f"{side.rms:.2g}" if relative is None else f"{relative:.2g} of the result"
