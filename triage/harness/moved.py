"""Wrong elements whose values are looked for elsewhere: some of them, evenly chosen, and what tells a find from chance."""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: of larger tensors this many elements from the first wrong row on are looked at
LIMIT = 1 << 22
#: wrong elements at which hypotheses are tried
TRIED = 1 << 14
#: fewer wrong elements prove no arrangement
FEWEST = 16
NEARLY_ALL = 0.95
#: values are the same up to this part of the expected one, and this part of the rms of all
RELATIVE, ABSOLUTE = 1e-2, 1e-3
#: where a wrong value is as good as found at more than this part of all places, finding it shows nothing
CHANCE = 0.25
#: how often every value is looked for at a place that has nothing to do with it
LOOKS = 8
#: a prime far from the powers of two by which tensors repeat, to take samples evenly
STRIDE = 100_003


@dataclass(frozen=True)
class Moved:
    """Planes of rows and columns in float64, with some of the wrong elements: their places (plane, row, column) and values.

    `scale` is the rms of what is expected, 0 for whole numbers, which agree only if they are equal; `cut`: the tensors go on.
    """

    actual: torch.Tensor
    expected: torch.Tensor
    wrong: torch.Tensor
    places: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    values: torch.Tensor
    scale: float
    cut: bool

    def near(self, values: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        """Which values are as good as the expected ones."""
        bound = expected.abs() * RELATIVE + ABSOLUTE * self.scale if self.scale else 0.0
        return (values - expected).abs() <= bound

    def explains(self, rows: torch.Tensor, columns: torch.Tensor) -> float:
        """The share of wrong elements whose value is expected at these places, of those for which there is such a place; 0 where these
        are too few."""
        _, height, width = self.expected.shape
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        count = int(inside.sum())
        if count < max(FEWEST, len(inside) // 2):
            return 0.0
        there = self.expected[self.places[0], rows.clamp(0, height - 1), columns.clamp(0, width - 1)]
        return int((self.near(self.values, there) & inside).sum()) / count

    @property
    def telling(self) -> bool:
        """Whether finding the values elsewhere would show anything: nearly all differ clearly from what is expected at their own
        place, not all by one amount, they vary, and they are not found at just any place."""
        own = self.expected[self.places]
        apart = self.values.isfinite() & ~self.near(self.values, own)
        if int(apart.sum()) < NEARLY_ALL * len(apart):
            return False
        values, off = self.values[apart], (self.values - own)[apart]
        size = max(self.scale, float(values.abs().max()))
        if float(values.std()) <= ABSOLUTE * size or float(off.max() - off.min()) <= RELATIVE * float(off.abs().max()):
            return False
        flat = self.expected.flatten()
        start = torch.arange(len(values), device=values.device) * STRIDE
        anywhere = [flat[(start + n * (STRIDE + 4)) % len(flat)] for n in range(LOOKS)]
        return float(torch.stack([self.near(values, other) for other in anywhere]).double().mean()) <= CHANCE


def moved(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> Moved | None:
    """The wrong elements of two tensors of one shape, device and type; None where they are too few, or no real numbers."""
    if actual.is_complex() or actual.numel() < FEWEST or actual.shape[-1] > LIMIT:
        return None
    height, width = (1, *actual.shape)[-2:]
    one, other, mask = _part(*(t.reshape(-1, height, width) for t in (actual, expected, wrong)))
    found = mask.flatten().nonzero().flatten()
    if len(found) < FEWEST:
        return None
    if len(found) > TRIED:
        found = found[torch.arange(TRIED, device=found.device) * STRIDE % len(found)]
    height = one.shape[1]
    places = (found // (height * width), found // width % height, found % width)
    one, other = one.double(), other.double()
    finite = other[other.isfinite()]
    scale = float(finite.square().mean().sqrt()) if actual.is_floating_point() and len(finite) else 0.0
    return Moved(one, other, mask, places, one[places], scale, one.numel() < actual.numel())


def _part(actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> list[torch.Tensor]:
    """All planes, or, of too many elements, those from the first wrong one on, or the rows of one from the first wrong one on."""
    planes = [actual, expected, wrong]
    _, height, width = wrong.shape
    if wrong.numel() <= LIMIT:
        return planes
    first = int(wrong.flatten().byte().argmax())
    plane, row = first // (height * width), first // width % height
    if height * width <= LIMIT:
        return [t[plane : plane + LIMIT // (height * width)] for t in planes]
    return [t[plane : plane + 1, row : row + LIMIT // width] for t in planes]
