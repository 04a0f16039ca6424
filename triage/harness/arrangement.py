"""How the values of wrong elements are arranged: duplicated, swapped, shifted, or tiles displaced or mixed up.

A hypothesis counts only if it explains nearly all wrong elements and chance could not: where expected values repeat so much that any
wrong value is found at many places, where what is wrong hardly varies, or where all of it is off by one amount, nothing is said.
"""

from __future__ import annotations

from typing import Any

import torch

from .moved import NEARLY_ALL, Moved, moved
from .tilings import displaced, divisors, mixed, tilings

#: of what is exchanged each half has at least this part of the wrong elements
BOTH = 0.25
#: shifts that correlate best are tried
PEAKS = 8


def arrangement(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> dict[str, Any] | None:
    """How the values of the wrong elements are arranged (`model.Arrangement` as JSON); None where nothing is sure.

    The tensors are of one shape, device and type. It takes a Fourier transform and some passes over a limited part of them, of which
    only a shift is told, because other arrangements are counted from the start.
    """
    seen = moved(actual, expected, wrong)
    if seen is None or not seen.telling:
        return None
    if seen.cut:
        return _shifted(seen)
    # duplicates in pairs look exchanged or one further, too, but leave those right that are repeated
    found = _duplicated(seen) or _swapped(seen) or _shifted(seen)
    if found:
        return found
    tiles = tilings(seen)
    return displaced(seen, tiles) or mixed(tiles)


def _told(kind: str, share: float, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "share": round(share, 4), **more}


def _swapped(seen: Moved) -> dict[str, Any] | None:
    """Halves of rows or columns, or of equal groups of them, exchanged."""
    for axis, extent in ((1, seen.actual.shape[2]), (0, seen.actual.shape[1])):
        for half in divisors(extent):
            if extent % (2 * half):
                continue
            index = seen.places[axis + 1]
            lower = index // half % 2 == 0
            if not BOTH <= float(lower.double().mean()) <= 1 - BOTH:
                continue
            other = index + torch.where(lower, half, -half)
            share = seen.explains(*((other, seen.places[2]) if axis == 0 else (seen.places[1], other)))
            if share >= NEARLY_ALL:
                return _told("swapped", share, by=[half, 0] if axis == 0 else [0, half])
    return None


def _shifted(seen: Moved) -> dict[str, Any] | None:
    """Everything some rows and columns further; positive numbers are down and to the right."""
    for down, right in _shifts(seen):
        share = seen.explains(seen.places[1] - down, seen.places[2] - right)
        if share >= NEARLY_ALL:
            return _told("shifted", share, by=[down, right])
    return None


def _shifts(seen: Moved) -> list[tuple[int, int]]:
    """Where the wrong elements correlate best with what is expected, both ways around, the shortest first."""
    _, height, width = seen.actual.shape
    expected = seen.expected.nan_to_num(0.0, 0.0, 0.0)
    known = seen.wrong & seen.actual.isfinite()
    one = torch.where(known, seen.actual - seen.actual[known].mean(), 0.0)
    spectra = torch.fft.rfft2(one) * torch.fft.rfft2(expected - expected.mean()).conj()
    likeness = torch.fft.irfft2(spectra.sum(0), s=(height, width)).flatten()
    peaks = likeness.topk(min(PEAKS, len(likeness))).indices.tolist()
    found = {
        (down, right)
        for peak in peaks
        for down in (peak // width, peak // width - height)
        for right in (peak % width, peak % width - width)
    }
    return sorted(found - {(0, 0)}, key=lambda shift: abs(shift[0]) + abs(shift[1]))


def _duplicated(seen: Moved) -> dict[str, Any] | None:
    """In equal groups of rows or columns, all like that one of the group in which nothing is wrong."""
    for axis, extent in ((1, seen.actual.shape[2]), (0, seen.actual.shape[1])):
        index = seen.places[axis + 1]
        for group in divisors(extent)[:-1]:
            counts = torch.bincount(index % group, minlength=group)
            kept = int(counts.argmin())
            source = index // group * group + kept
            share = seen.explains(*((source, seen.places[2]) if axis == 0 else (seen.places[1], source)))
            if share >= NEARLY_ALL and int(counts[kept]) == 0:
                return _told("duplicated", share, by=[group, 0] if axis == 0 else [0, group], first=[kept])
    return None
