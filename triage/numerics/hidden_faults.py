"""What a comparison cannot see: parameters under which a wrong kernel passes, or a right one fails. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from triage.numerics.formats import UnknownFormat, format_of
from triage.numerics.tolerance import FALLBACK, UPSTREAM

#: the side of the smallest tile whose loss has to be seen; the smallest one that kernels for tensor cores use
TILE = 16
#: a relative tolerance that lets an error through which is larger than those of any format of 16 bits or more
LOOSE = 0.05
#: integers to which kernels round real numbers; wider ones hold counts and indices
QUANTIZED = frozenset({"int4", "uint4", "int8", "uint8"})


@dataclass(frozen=True)
class Comparing:
    """A comparison as it was called. `None` where a function has no such parameter; `tile`: the extents of the output's tile."""

    function: str
    shape: tuple[int, ...]
    dtype: str
    rtol: float | None = None
    atol: float | None = None
    max_mismatched_ratio: float | None = None
    equal_nan: bool = False
    tile: tuple[int, ...] = ()
    #: the rms of what was expected, where it is known: an absolute tolerance means nothing without it
    rms_expected: float | None = None


@dataclass(frozen=True)
class Blind:
    """`kind` is stable: `mismatches-cover-a-tile`, `nan-agrees`, `zero-needs-atol`, `compared-exactly`, `atol-covers-all`, `loose`.
    `hides`: a wrong kernel passes; else a right one fails."""

    kind: str
    says: str
    hides: bool = True


def blind_spots(comparing: Comparing) -> tuple[Blind, ...]:
    """What a comparison cannot see, the worst first."""
    try:
        form = format_of(comparing.dtype)
    except UnknownFormat:
        form = None
    found = [_covered(comparing), _nan(comparing, form is not None and form.exact), _atol(comparing), _loose(comparing)]
    if form is not None and form.name in QUANTIZED and comparing.rtol == comparing.atol == 0:
        says = f"{comparing.dtype} is compared exactly: right for whole numbers, but a value that was rounded to one may be off by 1"
        found.append(Blind("compared-exactly", says, hides=False))
    if form is not None and not form.exact and comparing.rtol is not None and comparing.atol is not None:
        if comparing.rtol == comparing.atol == 0:
            found.append(_exactly(comparing.dtype, form.digits or 0))
        elif comparing.atol == 0:
            start = FALLBACK.get(form.name)
            amount = f", as {start[0].atol:g}" if start else ""
            says = f"without atol a sum that cancels to nearly zero must be right to rtol={comparing.rtol:g} of itself; give one{amount}"
            found.append(Blind("zero-needs-atol", says, hides=False))
    return tuple(sorted((one for one in found if one is not None), key=lambda one: not one.hides))


def _covered(comparing: Comparing) -> Blind | None:
    """Whether the elements that may be wrong hold a whole tile, or the part of one that a tail is."""
    if not comparing.max_mismatched_ratio:
        return None
    allowed = int(math.prod(comparing.shape) * comparing.max_mismatched_ratio)
    size, name = _smallest_part(comparing.shape, comparing.tile)
    if allowed < size:
        return None
    ratio = f"max_mismatched_ratio={comparing.max_mismatched_ratio:g}"
    default = UPSTREAM.get(comparing.function)
    if default is not None and default.max_mismatched_ratio == comparing.max_mismatched_ratio:
        ratio += f" (the default of {comparing.function})"
    share = f"{ratio} lets {allowed} of {math.prod(comparing.shape)} elements be wrong"
    return Blind("mismatches-cover-a-tile", f"{share}, and {name} holds {size}; set it to 0")


def _smallest_part(shape: Sequence[int], tile: Sequence[int]) -> tuple[int, str]:
    """How many elements the smallest tile or tail of a tensor has, and what it is."""
    extents = list(shape)[-2:] or [1]
    sides = list(tile)[-len(extents) :] if tile else [TILE] * len(extents)
    sides = [1] * (len(extents) - len(sides)) + sides
    parts = [extent % side or side for extent, side in zip(extents, sides, strict=True) if side > 0]
    size = math.prod(min(part, extent) for part, extent in zip(parts, extents, strict=True))
    tail = any(extent % side for extent, side in zip(extents, sides, strict=True))
    drawn = "x".join(str(min(part, extent)) for part, extent in zip(parts, extents, strict=True))
    where = f"the last tile ({drawn})" if tail else f"a tile of {drawn}"
    return size, where


def _nan(comparing: Comparing, integers: bool) -> Blind | None:
    if not comparing.equal_nan or integers:
        return None
    return Blind(
        "nan-agrees",
        "equal_nan=True: a NaN agrees with a NaN of the reference, and both may come of the same wrong input",
    )


def _atol(comparing: Comparing) -> Blind | None:
    rms = comparing.rms_expected
    if not rms or comparing.atol is None or comparing.atol < rms:
        return None
    return Blind(
        "atol-covers-all", f"atol={comparing.atol:g} is above the rms of what is expected ({rms:.3g}): zeros would pass"
    )


def _loose(comparing: Comparing) -> Blind | None:
    try:
        coarse = 2 * format_of(comparing.dtype).u  # one spacing of the result
    except UnknownFormat:
        return None
    if comparing.rtol is None or comparing.rtol <= max(LOOSE, coarse):
        return None
    return Blind("loose", f"rtol={comparing.rtol:g} lets values through that are off by {comparing.rtol:.0%}")


def _exactly(dtype: str, digits: int) -> Blind:
    says = f"{dtype} is compared exactly: another order of summation changes its last of {digits} bits now and then"
    return Blind("compared-exactly", says, hides=False)
