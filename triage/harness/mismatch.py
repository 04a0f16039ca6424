"""What is wrong between two tensors, as plain data: how many elements, where they are, and what their values share.

Everything here reads tensors and changes none; it costs about what a comparison costs, and runs only after one failed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
from typing import Any

import torch

#: the mask of wrong elements is kept up to this many elements
MASK_LIMIT = 1 << 16
#: runs of indices that are listed for an axis; more are only counted
RUNS = 16
#: the last so many axes are told apart, those before them count as one
AXES = 6
#: ratio and spread are taken of so many wrong elements at most, evenly chosen
SAMPLE = 1 << 18
#: elements agree with a common ratio up to this relative difference
RATIO_TOLERANCE = 0.02
#: where the script's own bound is not known, elements are wrong whose error is above this part of the largest
LARGE = 1 / 16


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


def summarize(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> tuple[dict[str, Any], bytes | None]:
    """The pattern of the `wrong` elements (`model.Mismatch` as JSON), and the mask, a byte an element, where it is small."""
    kind = str(actual.dtype).removeprefix("torch.")
    actual, expected = alike(actual, expected)
    count = int(wrong.sum())
    told: dict[str, Any] = {"shape": list(wrong.shape), "dtype": kind, "wrong": count, "total": wrong.numel()}
    mask = _bytes(wrong) if wrong.numel() <= MASK_LIMIT else None
    told["axes"], moments = _axes(wrong)
    told["digest"] = hashlib.sha256(mask or json.dumps([told["shape"], moments]).encode()).hexdigest()[:16]
    if count:
        told |= _values(actual[wrong], expected[wrong])
        told["transposed"] = _transposed(actual, expected, wrong, count)
    return told, mask


def _bytes(wrong: torch.Tensor) -> bytes:
    plain = wrong.to(torch.uint8).contiguous().cpu()
    return ctypes.string_at(plain.data_ptr(), plain.numel()) if plain.numel() else b""


# ------------------------------------------------------------------------------------------------------------ places


def _axes(wrong: torch.Tensor) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """For every axis which of its indices hold wrong elements (`touched`), and which are mostly wrong (`dense`)."""
    if wrong.dim() > AXES:
        wrong = wrong.reshape(-1, *wrong.shape[wrong.dim() - AXES + 1 :])
    axes, moments = [], []
    for axis, extent in enumerate(wrong.shape):
        others = [other for other in range(wrong.dim()) if other != axis]
        counts = wrong.sum(dim=others) if others else wrong.long()
        line = wrong.numel() // extent if extent else 0
        touched, dense = counts > 0, counts * 2 >= max(line, 1)
        axes.append({"extent": int(extent), "touched": _runs(touched), "dense": _runs(dense)})
        place = torch.arange(1, extent + 1, device=counts.device)
        moments.append([int((counts * weight).sum()) for weight in (place, place * place % 1000003)])
    return axes, moments


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


def _values(actual: torch.Tensor, expected: torch.Tensor) -> dict[str, Any]:
    """What the wrong elements hold: NaN, infinities and zeros, the largest errors, the ratio they share."""
    if actual.is_complex():
        actual, expected = torch.view_as_real(actual).flatten(), torch.view_as_real(expected).flatten()
    if not actual.is_floating_point():
        actual, expected = actual.double(), expected.double()
    elif actual.element_size() < 4:
        actual, expected = actual.float(), expected.float()
    nan, lost = actual.isnan(), expected.isnan()
    told: dict[str, Any] = {
        "nan": int((nan & ~lost).sum()),
        "expected_nan": int(lost.sum()),
        "inf": int((actual.isinf() & ~expected.isinf()).sum()),
        "zeros": int((actual == 0).sum()),
    }
    error = actual.sub(expected).abs_()
    finite = error.isfinite()
    told["max_abs"] = float(error[finite].max()) if bool(finite.any()) else None
    relative = error.div_(expected.abs())
    finite = relative.isfinite()
    told["max_rel"] = float(relative[finite].max()) if bool(finite.any()) else None
    return told | _ratio(actual, expected)


def _ratio(actual: torch.Tensor, expected: torch.Tensor) -> dict[str, Any]:
    """The factor between wrong elements and their expected values, and the share of them that it explains; `varied`:
    the expected values differ among themselves, so that a common factor says something."""
    step = -(-actual.numel() // SAMPLE)
    one, other = actual[::step].double(), expected[::step].double()
    known = one.isfinite() & other.isfinite() & (other != 0)
    one, other = one[known], other[known]
    if not len(one):
        return {"ratio": None, "explained": 0.0, "varied": False}
    ratio = float((one * other).sum() / (other * other).sum())
    if not math.isfinite(ratio):
        return {"ratio": None, "explained": 0.0, "varied": False}
    scaled = other * ratio
    fits = (one - scaled).abs_() <= scaled.abs() * RATIO_TOLERANCE
    varied = float(other.max() - other.min()) > 0.1 * float(other.abs().max())
    return {"ratio": ratio, "explained": float(fits.double().mean()), "varied": varied}


def _transposed(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, count: int) -> float:
    """The share of wrong elements that hold what is expected at the place with the last two indices exchanged."""
    if actual.dim() < 2 or actual.shape[-1] != actual.shape[-2] or actual.shape[-1] == 1:
        return 0.0
    close = wrong_elements(actual, expected.transpose(-1, -2), 1e-2, 1e-3, False).logical_not_()
    return int((close & wrong).sum()) / count
