"""What was measured of the differences between a result and its reference, and which causes make differences of that size. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from triage.numerics.formats import FORMATS
from triage.numerics.tolerance import Dot, Model, dot_model

#: from so many lost products on (in rms) one may be lost: the lost one need not be of average size
ONE_LOST = 0.2
#: an error is of one factor if the factor makes this share of its square
ONE_FACTOR = 0.9
#: the rms error of rounded inputs is known this well
ROUNDING_KNOWN = 0.15
#: What is wrong with every sum puts at least this share of the elements outside the band: a quarter where the error is twice the
#: expected one.
MANY = 0.05
#: One element of many that makes this share of the squared error is wrong by itself.
ALONE = 0.5
#: The largest error over their rms: 13 for a float16 accumulator over 10^7 elements; 20 if one element in 400 has all the error.
PEAK = 20.0
#: formats to which a program may round on its way
ON_THE_WAY = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2")


@dataclass(frozen=True)
class Measured:
    """The differences of all elements of a result from their reference.

    `rms_error`, `rms_result` and `max_error` are absolute, of the finite ones; `max_result` the largest |expected|; `nonfinite`
    counts elements that are NaN or infinite where the reference is not, or the other way round. `rms_s` and `max_over_s` need
    S = sum |a * b| of every element: its rms, and the largest error over it. `outside` counts the elements above
    `Model.limit`. `gain` is sum(error * expected) / sum(expected^2). What nobody measured is None.
    """

    count: int
    rms_error: float
    rms_result: float
    max_error: float
    max_result: float
    nonfinite: int = 0
    rms_s: float | None = None
    max_over_s: float | None = None
    outside: int | None = None
    gain: float | None = None

    @property
    def relative(self) -> float | None:
        """The rms error over the rms of the result; None where that is zero."""
        return self.rms_error / self.rms_result if self.rms_result else None

    @property
    def everywhere(self) -> bool:
        """Whether many elements are wrong, as they are where something is wrong with every sum."""
        if not self.rms_error or (self.outside is not None and self.outside < MANY * self.count):
            return False
        peak = self.max_error / self.rms_error
        return peak <= PEAK and (peak**2 <= ALONE * self.count or self.count < 1 / MANY)


def scaled_by(measured: Measured) -> float | None:
    """The factor by which the whole result is wrong, if that is what is wrong with it."""
    if measured.gain is None or not measured.rms_error:
        return None
    share = (measured.gain * measured.rms_result / measured.rms_error) ** 2
    return 1 + measured.gain if share >= ONE_FACTOR else None


def causes(model: Model, measured: Measured) -> tuple[str, ...]:
    """What makes an error of the measured size in all elements, beside narrow accumulators: nouns, most telling first.

    Nothing where only some elements are wrong.
    """
    relative = measured.relative
    if not relative:
        return ()
    factor = scaled_by(measured)
    if factor is not None:
        return (f"a factor of {factor:.6g}",)
    if not measured.everywhere:
        return ()
    found = []
    if model.dot is not None and _reads_unrounded(model.dot, relative):
        found.append(f"a reference that reads the inputs before they were rounded to {model.dot.inputs.name}")
    found += [f"one more rounding to {name}" for name in ON_THE_WAY if _rounded_to(name, model, measured, relative)]
    if model.dot is not None:
        lost = model.dot.k * (relative if model.dot.data.same_sign else relative**2)
        if ONE_LOST <= lost <= model.dot.k / 2:
            found.append(f"about {max(1, round(lost))} of the {model.dot.k} products lost or wrong")
    return tuple(found)


def _reads_unrounded(dot: Dot, relative: float) -> bool:
    if not dot.reads_rounded or dot.inputs.exact:
        return False
    other = dot_model(replace(dot, reads_rounded=False))
    return _near(relative, other.rms(other.s, other.r) / other.r)


def _rounded_to(name: str, model: Model, measured: Measured, relative: float) -> bool:
    """One rounding has a sharp bound, too, which sums of many roundings exceed."""
    to = FORMATS[name]
    coarser = to.u > model.output.u or model.output.exact
    bound = to.u * (measured.max_result + measured.max_error)
    # over values of one size: from those just below a power of two to those just above
    least, most = to.u / math.sqrt(12), to.u / math.sqrt(3)
    return coarser and least <= relative <= most and measured.max_error <= bound


def _near(one: float, other: float) -> bool:
    return abs(math.log(one / other)) <= math.log1p(ROUNDING_KNOWN)
