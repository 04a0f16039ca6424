"""What is wrong between two tensors, as plain data: how many elements, where they are, and what their values share.

Everything here reads tensors and changes none; it costs about what a comparison costs, and runs only after one failed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .arrangement import arrangement

#: the mask of wrong elements is kept up to this many elements
MASK_LIMIT = 1 << 16
#: runs of indices that are listed for an axis; more are only counted
RUNS = 16
#: the last so many axes are told apart, those before them count as one
AXES = 6
#: of more wrong elements than this, values are looked at in some that are evenly chosen
SAMPLE = 1 << 18
#: an axis with more indices than this counts in so many groups for its digest
GROUPS = 1 << 16
#: elements agree with a common ratio up to this relative difference
RATIO_TOLERANCE = 0.02
#: differences are computed in pieces of so many elements, for they need several float64 numbers an element
PIECE = 1 << 22
#: the spacing of float32 at 1
SINGLE = 2.0**-23
#: Differences of this part of the rms of what is expected count for nothing beside it: what cancels to nearly zero keeps the absolute
#: error of its float32 terms, and would be off by many of its own tiny spacings. 32 float32 roundings of a number of that size; of float64 where
#: that is kept.
SLACK = 16 * SINGLE
#: where the script's own bound is not known, elements are wrong whose error is above this part of the largest
LARGE = 1 / 16
#: a bound from here on may be one that a similarity has to reach
LIKENESS = 0.5
#: errors of so many spacings of the largest value may be rounding
SPACINGS = 16
#: types to which values are rounded, the coarsest first
NARROW = (torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16, torch.float16)
#: so many values show which precision they have, if so large a part of them needs its last digit: half of all numbers do
TELLING, USED = 64, 1 / 3
#: integers to which kernels round real numbers; wider ones hold counts and indices
QUANTIZED = (torch.int8, torch.uint8)


def wrong_elements(
    actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float, equal_nan: bool
) -> torch.Tensor:
    """The mask of elements that differ by more than `atol + rtol * |expected|`."""
    actual, expected = alike(actual, expected)
    if actual.is_floating_point() or actual.is_complex():
        return torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan).logical_not_()
    if rtol == atol == 0:
        return actual.ne(expected)
    expected = expected.double()
    return actual.double().sub_(expected).abs_().gt(expected.abs_().mul_(rtol).add_(atol))


def largely_wrong(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The mask of elements whose error is not small beside the largest one, for a check whose bound is not known."""
    actual, expected = alike(actual, expected)
    if not (actual.is_floating_point() or actual.is_complex()):
        return actual.ne(expected)
    error = actual.sub(expected).abs_()
    finite = error[error.isfinite()]
    bound = float(finite.max()) * LARGE if finite.numel() else 0.0
    equal = actual.eq(expected) | (actual.isnan() & expected.isnan())
    return (error <= bound).logical_or_(equal).logical_not_()


@dataclass(frozen=True)
class Far:
    """How far two tensors are apart: the largest error, the largest one beside its expected value, and the sum of all errors; infinite
    where one is no number and the other is. `rounding`: no error is more than a few spacings of the largest value."""

    largest: float
    relative: float
    total: float
    rounding: bool

    def beyond(self, bounds: Sequence[float]) -> bool:
        """Whether there is a difference, and one of the usual measures of it is above the least of the bounds, if any is known that may
        be one of errors and not of a likeness."""
        least = min((bound for bound in bounds if bound < LIKENESS), default=0.0)
        return self.largest > 0 and max(self.largest, self.relative, self.total) > least


def how_far(actual: torch.Tensor, expected: torch.Tensor) -> Far:
    """The distance of two tensors of one shape."""
    narrow = min(
        (t.dtype for t in (actual, expected) if t.is_floating_point()), key=lambda dtype: dtype.itemsize, default=None
    )
    actual, expected = alike(actual, expected)
    equal = actual.eq(expected) | (actual.ne(actual) & expected.ne(expected))
    if bool(equal.all()):
        return Far(0.0, 0.0, 0.0, True)
    wide = [t.to(torch.complex128 if t.is_complex() else torch.float64) for t in (actual, expected)]
    error = wide[0].sub(wide[1]).abs().masked_fill(equal, 0.0).nan_to_num(math.inf, math.inf)
    size = wide[1].abs()
    finite = size[size.isfinite()]
    top = float(finite.max()) if finite.numel() else 0.0
    largest = float(error.max())
    relative = _largest_beside(error, size)
    spacing = torch.finfo(narrow).eps if narrow is not None else 0.0
    return Far(largest, relative, float(error.sum()), largest <= SPACINGS * spacing * top)


def _largest_beside(error: torch.Tensor, size: torch.Tensor) -> float:
    """The largest error beside the size at its own place; infinite beside nothing."""
    some = error > 0
    return float((error[some] / size[some]).nan_to_num(math.inf, math.inf).max()) if bool(some.any()) else 0.0


def measures(actual: torch.Tensor, expected: torch.Tensor) -> tuple[float, ...]:
    """The usual measures of an error: the largest, the mean and the root mean square, then each beside that of what is expected, and the largest one
    beside its own expected value. Infinite where one side is no number and the other is."""
    actual, expected = alike(actual, expected)
    equal = actual.eq(expected) | (actual.ne(actual) & expected.ne(expected))
    error = actual.double().sub(expected.double()).abs_().masked_fill_(equal, 0.0).nan_to_num_(math.inf, math.inf)
    size = expected.double().abs().nan_to_num_(0.0, 0.0)
    errors = [float(error.max()), float(error.mean()), float(error.square().mean().sqrt())]
    sizes = [float(size.max()), float(size.mean()), float(size.square().mean().sqrt())]
    beside = [one / other if other else one for one, other in zip(errors, sizes, strict=True)]
    return (*errors, *beside, _largest_beside(error, size))


def mended(before: Sequence[float], after: Sequence[float], bounds: Sequence[float]) -> bool:
    """Whether errors are small enough now for a check of which nobody knows which measure it takes: one of them has come below one of its
    `bounds`, or, where none of these was exceeded, the largest is far smaller than it was."""
    exceeded = [bound for bound in bounds if 0 < bound < LIKENESS and any(measure > bound for measure in before)]
    if exceeded:
        return any(one > bound >= other for bound in exceeded for one, other in zip(before, after, strict=True))
    return after[0] <= LARGE * before[0] if math.isfinite(before[0]) else math.isfinite(after[0])


def alike(actual: torch.Tensor, expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both on one device, in one type that can be computed with, in the shape that they broadcast to."""
    narrow = [t.is_floating_point() and t.element_size() == 1 for t in (actual, expected)]
    if any(narrow):
        actual, expected = actual.float(), expected.float()
    if actual.dtype != expected.dtype:
        common = torch.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    if actual.device != expected.device:
        expected = expected.to(actual.device)
    if actual.shape != expected.shape:
        actual, expected = torch.broadcast_tensors(actual, expected)
    return actual, expected


def same_values(one: torch.Tensor, copy: torch.Tensor) -> bool:
    """Whether `copy` holds the values of `one`, in their order, as its own type has them."""
    cast = one.to(copy.device, copy.dtype).flatten()
    copy = copy.flatten()
    return bool((cast.eq(copy) | (cast.ne(cast) & copy.ne(copy))).all())


def largest(values: torch.Tensor) -> float | None:
    """The largest finite magnitude; None without one. A tolerance above it means nothing."""
    values = values.float() if values.is_floating_point() and values.element_size() == 1 else values
    if values.is_complex() or values.dtype == torch.bool or not values.numel():
        return None
    most = max(abs(float(end)) for end in values.aminmax())
    return most if math.isfinite(most) else None


def usual(values: torch.Tensor) -> float | None:
    """The mean magnitude of what is neither zero nor infinite nor NaN; None without any."""
    magnitudes = values.double().abs().flatten()
    some = magnitudes[magnitudes.isfinite() & (magnitudes > 0)]
    return float(some.mean()) if some.numel() else None


def summarize(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> tuple[dict[str, Any], bytes | None]:
    """The pattern of the `wrong` elements (`model.Mismatch` as JSON), and the mask, a byte an element, where it is small."""
    kind = _name(actual.dtype)
    actual, expected = alike(actual, expected)
    count = int(torch.count_nonzero(wrong))
    told: dict[str, Any] = {"shape": list(wrong.shape), "dtype": kind, "wrong": count, "total": wrong.numel()}
    mask = _bytes(wrong) if wrong.numel() <= MASK_LIMIT else None
    told["axes"], moments = _axes(wrong)
    told["digest"] = hashlib.sha256(mask or json.dumps([told["shape"], moments]).encode()).hexdigest()[:16]
    if count:
        told |= _values(*_sample(actual, expected, wrong, count), count)
        told |= _not_finite(actual, expected, wrong)
        told["transposed"] = _transposed(actual, expected, wrong)
        told["arrangement"] = arrangement(actual, expected, wrong)
    return told, mask


def differences(actual: torch.Tensor, expected: torch.Tensor, types: Iterable[torch.dtype]) -> dict[str, Any]:
    """How far all elements are from what is expected (`model.Differences` as JSON); `types` are those that a launch wrote `actual` in.

    A side that was rounded and then cast to a wider type counts as of the type that it was rounded to; of `actual` only where no
    launch is known: one that rounds more than its output needs is to be found, and not to be excused.
    """
    written = list(types) or [_held(actual)]
    fits = [kind for kind in types if kind.is_floating_point and same_values(expected.to(kind), expected)]
    reference = max((expected.dtype, _held(expected), *fits), key=_coarseness)
    kept = max((actual.dtype, reference, *written), key=_coarseness)
    told: dict[str, Any] = {
        "expected": _name(reference),
        "kept": _name(kept),
        "nonfinite": 0,
        "unequal": 0,
        "count": 0,
    }
    actual, expected = alike(actual, expected)
    if actual.is_complex():
        return {}
    pairs = list(zip(actual.reshape(-1).split(PIECE), expected.reshape(-1).split(PIECE), strict=True))
    square = expected_square = product = total = expected_total = largest = most = 0.0
    for one, other in pairs:
        error, other, nonfinite = _errors(one, other)
        told["nonfinite"] += nonfinite
        told["count"] += error.numel()
        told["unequal"] += int(torch.count_nonzero(error))
        if error.numel():
            square += float(error.dot(error))
            expected_square += float(other.dot(other))
            product += float(error.dot(other))
            total += float(error.sum())
            expected_total += float(other.sum())
            largest, most = max(largest, float(error.abs().max())), max(most, float(other.abs().max()))
    count = max(told["count"], 1)
    rms = math.sqrt(expected_square / count)
    told |= {"rms_error": math.sqrt(square / count), "max_error": largest, "mean_error": total / count}
    told |= {"mean_expected": expected_total / count, "rms_expected": rms, "max_expected": most}
    told |= {"gain": product / expected_square if expected_square else None}
    return told | _steps(pairs, kept, rms, count)


def _held(values: torch.Tensor) -> torch.dtype:
    """The coarsest type that holds all values, if they show its precision; their own if not.

    Whole numbers below the point where a type's spacing exceeds 1 show none: counts are no rounded numbers.
    """
    if not values.is_floating_point() or not values.numel():
        return values.dtype
    some = values.reshape(-1)[:: values.numel() // SAMPLE * 2 + 1].double()
    some = some[some.isfinite() & (some != 0)]
    mantissa = some.frexp().mantissa
    for kind in NARROW:
        digits = 1 - int(math.log2(torch.finfo(kind).eps))
        last = torch.ldexp(mantissa, torch.tensor(digits, device=some.device))
        if bool((last == last.round()).all()):
            shown = last[(some != some.round()) | (some.abs() >= 2**digits)]
            enough = len(shown) >= TELLING and float((shown.remainder(2) != 0).double().mean()) >= USED
            return kind if enough else values.dtype
    return values.dtype


def _errors(actual: torch.Tensor, expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The errors of the elements with numbers on both sides, what is expected there, and how many others do not agree."""
    actual, expected = actual.double(), expected.double()
    known = actual.isfinite() & expected.isfinite()
    if bool(known.all()):
        return actual - expected, expected, 0
    equal = actual.eq(expected) | (actual.isnan() & expected.isnan())
    return actual[known] - expected[known], expected[known], int(torch.count_nonzero(~known & ~equal))


def _steps(
    pairs: Iterable[tuple[torch.Tensor, torch.Tensor]], kept: torch.dtype, rms: float, count: int
) -> dict[str, float]:
    """The differences in spacings of a type: at what is expected (`SLACK` apart), and at the rms of that where it is smaller."""
    slack = SLACK * min(float(torch.finfo(kept).eps) / SINGLE, 1.0) if kept.is_floating_point else SLACK
    square = largest = scaled = beyond = mean = product = stored_square = 0.0
    for actual, expected in pairs:
        error, expected, _ = _errors(actual, expected)
        if not error.numel():
            continue
        stored = _stored(error, expected, kept)
        mean, product = mean + float(stored.sum()), product + float(stored.dot(expected))
        stored_square += float(stored.dot(stored))
        error = error.abs_()
        scaled = max(scaled, float((error / _spacing(expected.abs().clamp_(min=rms), kept)).max()))
        spacing = _spacing(expected, kept)
        beyond = max(beyond, float((error - spacing).max()))
        steps = error.sub_(slack * rms).clamp_(min=0.0).div_(spacing)
        square += float(steps.dot(steps))
        largest = max(largest, float(steps.max()))
    told = {"rms_steps": math.sqrt(square / count), "max_steps": largest, "max_scaled_steps": scaled}
    told["max_beyond_spacing"] = beyond
    if rms:
        told["lean"] = max(mean / count / rms, product / count / rms**2, key=abs)
        told["lean_by_chance"] = math.sqrt(stored_square) / count / rms
    return told


def _stored(error: torch.Tensor, expected: torch.Tensor, kept: torch.dtype) -> torch.Tensor:
    """The errors beside what is expected as a type holds it: rounding values that all lie between two numbers of it leans to one side."""
    if not kept.is_floating_point:
        return error
    error = error - (expected.to(kept).double() - expected)
    return error.nan_to_num_(0.0, 0.0, 0.0)  # beyond what the type can hold


def _spacing(values: torch.Tensor, kept: torch.dtype) -> torch.Tensor:
    """The distance of numbers of a type to the next one up; 1 for integers."""
    if not kept.is_floating_point:
        return torch.ones_like(values)
    form = torch.finfo(kept)
    exponent = values.abs().clamp(min=form.smallest_normal).frexp().exponent
    return torch.ldexp(torch.full_like(values, form.eps), exponent - 1)


def _coarseness(kind: torch.dtype) -> float:
    return float(torch.finfo(kind).eps) if kind.is_floating_point else 1.0 if kind in QUANTIZED else 0.0


def _name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def _bytes(wrong: torch.Tensor) -> bytes:
    plain = wrong.to(torch.uint8).contiguous().cpu()
    return ctypes.string_at(plain.data_ptr(), plain.numel()) if plain.numel() else b""


# ------------------------------------------------------------------------------------------------------------ places


def _axes(wrong: torch.Tensor) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """For every axis which of its indices hold wrong elements (`touched`), and which are mostly wrong (`dense`)."""
    if wrong.dim() > AXES:
        wrong = wrong.reshape(-1, *wrong.shape[wrong.dim() - AXES + 1 :])
    axes, moments = [], []
    bits = wrong.contiguous().view(torch.uint8)
    for axis, extent in enumerate(wrong.shape):
        others = [other for other in range(wrong.dim()) if other != axis]
        counts = bits.sum(dim=others, dtype=torch.int32) if others else bits
        line = wrong.numel() // extent if extent else 0
        touched = counts.bool()
        dense = touched if line == 1 else counts >= (line + 1) // 2
        axes.append({"extent": int(extent), "touched": _runs(touched), "dense": _runs(dense)})
        moments.append(_moments(counts))
    return axes, moments


def _moments(counts: torch.Tensor) -> list[int]:
    """Two sums that differ, as good as always, where the counts do."""
    if len(counts) > GROUPS:
        step = -(-len(counts) // GROUPS)
        counts = torch.nn.functional.pad(counts, (0, step * GROUPS - len(counts)))
        counts = counts.view(GROUPS, step).sum(1, dtype=torch.int64)
    place = torch.arange(1, len(counts) + 1, device=counts.device)
    return [int((counts.long() * weight).sum()) for weight in (place, place * place % 1000003)]


def _runs(chosen: torch.Tensor) -> dict[str, Any]:
    """The chosen indices as runs: their count, the first few as [start, length], and the least and greatest distance of
    two starts and length (but for the last run, which may be cut off)."""
    before = torch.nn.functional.pad(chosen[:-1], (1, 0)) if len(chosen) else chosen
    after = torch.nn.functional.pad(chosen[1:], (0, 1)) if len(chosen) else chosen
    starts = (chosen & ~before).nonzero().flatten()
    lengths = (chosen & ~after).nonzero().flatten() - starts + 1
    told: dict[str, Any] = {"count": int(chosen.sum()), "runs": len(starts)}
    told["first"] = torch.stack([starts, lengths], 1)[:RUNS].tolist()
    told["last"] = [int(starts[-1]), int(lengths[-1])] if len(starts) else []
    if len(starts) > 1:
        told["distances"] = _ends(starts[1:] - starts[:-1])
        told["lengths"] = _ends(lengths[:-1])
    return told


def _ends(values: torch.Tensor) -> list[int]:
    return [int(values.min()), int(values.max())]


# ------------------------------------------------------------------------------------------------------------ values


def _sample(
    actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The wrong elements, or, of very many, some evenly chosen ones."""
    if count <= SAMPLE:
        return actual[wrong], expected[wrong]
    step = max(wrong.numel() // SAMPLE, 1)
    while any(math.gcd(step, extent) > 1 for extent in wrong.shape):  # else it would keep to some columns
        step += 1
    chosen = wrong.reshape(-1)[::step]
    return actual.reshape(-1)[::step][chosen], expected.reshape(-1)[::step][chosen]


def _not_finite(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> dict[str, Any]:
    """How many of all wrong elements are NaN or infinite where the reference is not, and where the reference is NaN; the first of these."""
    if not (actual.is_floating_point() or actual.is_complex()) or bool((actual.sum() + expected.sum()).isfinite()):
        return {}
    lost = expected.isnan().logical_and_(wrong)
    nan = actual.isnan().logical_and_(wrong).logical_and_(lost.logical_not())
    infinite = actual.isinf().logical_and_(wrong).logical_and_(expected.isinf().logical_not_())
    told: dict[str, Any] = {"expected_nan": int(torch.count_nonzero(lost))}
    told |= {"inf": int(torch.count_nonzero(infinite)), "nan": int(torch.count_nonzero(nan))}
    some = lost.logical_or_(nan).logical_or_(infinite)
    return told | {"not_finite_at": some.nonzero()[0].tolist() if bool(some.any()) else []}


def _values(actual: torch.Tensor, expected: torch.Tensor, count: int) -> dict[str, Any]:
    """What `count` wrong elements, or some of them, hold: zeros, the largest errors, the ratio they share."""
    if actual.is_complex():
        actual, expected = torch.view_as_real(actual).flatten(), torch.view_as_real(expected).flatten()
    actual, expected = actual.double(), expected.double()
    told: dict[str, Any] = {}
    told["zeros"] = round(int(torch.count_nonzero(actual == 0)) * count / max(len(actual), 1))
    error = actual.sub(expected).abs_()
    told["max_abs"] = _largest(error)
    told["max_rel"] = _largest(error.div_(expected.abs()))
    return told | _ratio(actual, expected)


def _largest(values: torch.Tensor) -> float | None:
    finite = values[values.isfinite()]
    return float(finite.max()) if len(finite) else None


def _ratio(actual: torch.Tensor, expected: torch.Tensor) -> dict[str, Any]:
    """The factor between wrong elements and their expected values, and the share of them that it explains; `varied`:
    the expected values differ among themselves, so that a common factor says something."""
    known = actual.isfinite() & expected.isfinite() & (expected != 0)
    one, other = actual[known], expected[known]
    if not len(one):
        return {"ratio": None, "explained": 0.0, "varied": False}
    ratio = float((one * other).sum() / (other * other).sum())
    if not math.isfinite(ratio):
        return {"ratio": None, "explained": 0.0, "varied": False}
    scaled = expected * ratio
    fits = (
        actual - scaled
    ).abs_() <= scaled.abs() * RATIO_TOLERANCE  # where zero is expected no factor makes anything else
    varied = float(other.max() - other.min()) > 0.1 * float(other.abs().max())
    return {"ratio": ratio, "explained": float(fits.double().mean()), "varied": varied}


def _transposed(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> float:
    """The share of wrong elements that hold what is expected at the place with the last two indices exchanged."""
    if actual.dim() < 2 or actual.shape[-1] != actual.shape[-2] or actual.shape[-1] == 1:
        return 0.0
    step = -(-actual.numel() // SAMPLE)
    rows = (..., slice(None, None, step), slice(None))
    chosen = wrong[rows]
    close = wrong_elements(actual[rows], expected.transpose(-1, -2)[rows], 1e-2, 1e-3, False).logical_not_()
    count = int(torch.count_nonzero(chosen))
    return int(torch.count_nonzero(close.logical_and_(chosen))) / count if count else 0.0
