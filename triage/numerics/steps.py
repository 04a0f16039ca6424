"""Differences judged by the spacings of the numbers themselves, where nothing is known of the arithmetic behind them. Pure.

One rounding moves a value by half a spacing of its type; two right programs that round to the same type differ in a few elements, by
one spacing. Errors of a program are another thing in one of three ways: they are larger than that somewhere, as whatever is added or left
out is beside a small result; they lean to one side, as a factor or a truncation does; or they lie in some rows and not in others.
"""

from __future__ import annotations

from dataclasses import dataclass

from triage.model import Differences
from triage.numerics.formats import FORMATS, Format, UnknownFormat, format_of
from triage.numerics.hidden_faults import QUANTIZED
from triage.numerics.tolerance import Tolerance, one_two_five

#: A mean is zero as far as chance goes if it is within so many of its standard deviations.
CHANCE = 6.0
#: and in any case within this part of a unit roundoff, or two roundings of float32, in which functions are biased (of float64 where that is kept)
LEAN, LEAN_OF_COMPUTING = 1 / 32, 2.0
#: Values on the border of two numbers of a coarse type, which go to the other side: as many as the argument's own error over the
#: spacing. float16 on the way to one of 8 bits makes 2^-11 / 2^-4 of them, twice for either side.
BORDERLINE = 0.1
#: half a spacing, and what the reference is off by itself
HALF = 0.55
#: an absolute difference of so many float32 roundings (of float64 where that is kept) of a result of usual size counts for nothing (`harness/mismatch.py`)
SLACK = 32.0
#: less than this part of a spacing is left where only results near zero are off, by what is nothing beside the others
TELLABLE = 0.05


@dataclass(frozen=True)
class Steps:
    """How many spacings of a type right programs may be apart: the most, and in root mean square."""

    most: float
    rms: float


#: Of 16 bits: rounded once at the end, and once or twice on the way. Of more, arithmetic itself is done in the type: chains of tens of
#: operations, with exponentials that amplify a rounding of their argument by its size.
NARROW, WIDE = Steps(2.0, 0.6), Steps(16.0, 4.0)
#: this part of the rms of what is expected is more than types of 8 bits round by, and than sums lose by their order
GROSS, TINY = 0.25, 1e-30
#: a type with fewer bits holds so few numbers that larger differences cannot be told from faults
COARSE_BITS = 8


@dataclass(frozen=True)
class SpacingVerdict:
    """`inside`: as rounding to the type `kept` makes them. `says` why, or why not; `allowed`: what such differences need."""

    inside: bool
    says: str
    allowed: Tolerance | None = None


def by_spacings(found: Differences, placed: bool, real: bool) -> SpacingVerdict:
    """Judge differences. `placed`: the wrong elements form a pattern; `real`: the kernel computes with real numbers."""
    try:
        kept = format_of(found.kept)
    except UnknownFormat as why:
        return SpacingVerdict(False, str(why))
    if found.nonfinite:
        return SpacingVerdict(
            False, f"{found.nonfinite} elements are NaN or infinite on one side only; no rounding does that"
        )
    if not found.count or not found.unequal:
        return SpacingVerdict(False, "no element differs in a number")
    if kept.exact and not (real and kept.name in QUANTIZED):
        return SpacingVerdict(False, "integers are computed exactly")
    if placed:
        return SpacingVerdict(False, "the wrong elements form a pattern")
    size = _of_size(found, kept)
    if size is not None:
        return SpacingVerdict(False, size)
    if leans(found, kept):
        return SpacingVerdict(False, f"the differences lean to one side: by {found.lean:.2g} of the result on average")
    return SpacingVerdict(True, _says(found), _allowed(found, kept))


def beyond_rounding(found: Differences) -> bool:
    """Whether an element is off by what no order of sums and no rounding makes of a result of usual size, whatever the type."""
    return bool(found.nonfinite) or found.max_error > GROSS * max(found.rms_expected, TINY)


def _of_size(found: Differences, kept: Format) -> str | None:
    """What about the size of the differences rounding does not explain."""
    if kept.exact or (kept.digits or 0) < COARSE_BITS:
        border = found.unequal <= BORDERLINE * found.count
        if found.max_steps > (1.0 if border else HALF):
            return f"up to {found.max_steps:.3g} spacings of {kept.name} apart in {found.unequal} of {found.count} elements"
        return None
    limit = WIDE if kept.u <= FORMATS["float32"].u else NARROW
    if found.max_steps > limit.most:
        return f"an element is {found.max_steps:.3g} spacings of {kept.name} off"
    if found.rms_steps > limit.rms:
        return f"the elements are {found.rms_steps:.3g} spacings of {kept.name} off in root mean square"
    return None


def _computed(kept: Format) -> float:
    """The unit roundoff of the arithmetic behind a type: float32 for what is narrower."""
    return FORMATS["float32"].u if kept.exact else min(kept.u, FORMATS["float32"].u)


def leans(found: Differences, kept: Format, allowed: float = 0.0) -> bool:
    """Whether differences lean to one side by more than chance makes, and more than is `allowed`, a part of the result."""
    return abs(found.lean) > max(
        CHANCE * found.lean_by_chance, LEAN * kept.u, LEAN_OF_COMPUTING * _computed(kept), allowed
    )


def _says(found: Differences) -> str:
    beside_rms = found.max_steps < TELLABLE
    most = f"{found.max_scaled_steps if beside_rms else found.max_steps:.2g}"
    spacings = f"one spacing of {found.kept}" if most == "1" else f"{most} spacings of {found.kept}"
    usual = " at their usual size" if beside_rms else ""
    return f"{found.unequal} of {found.count} elements are off, all by at most {spacings}{usual}, to either side"


def _allowed(found: Differences, kept: Format) -> Tolerance:
    if kept.exact:
        return Tolerance(0.0, 1.0)
    steps = max(found.max_steps, 1.0)
    return Tolerance(
        one_two_five(2 * steps * kept.u), one_two_five(SLACK * _computed(kept) * found.rms_expected + kept.floor)
    )
