"""Tiles of wrong elements that hold what is expected of other tiles, or their own values in another order."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch

from .moved import ABSOLUTE, NEARLY_ALL, STRIDE, Moved

#: elements of the least tile, wrong ones of a tile whose values are mixed up, and how many tiles are looked at
LEAST_TILE, LEAST_MIXED, MOST_MIXED, TILES = 64, 32, 1 << 14, 64
#: elements of a tile that are looked for everywhere
LOOKED_FOR = 16
#: sorted values differ by less than this part of what two independent samples would differ by
SAME_SET = 0.1


def divisors(extent: int) -> list[int]:
    """The extent halved again and again and the powers of two, as long as they divide it; the greatest first."""
    powers = [1 << n for n in range(extent.bit_length())]
    return sorted({size for n in powers for size in (n, extent // n) if extent % n == 0}, reverse=True)


@dataclass(frozen=True)
class Tiles:
    """Planes cut into tiles, which are numbered row by row; no copy."""

    size: tuple[int, int]
    actual: torch.Tensor
    expected: torch.Tensor
    wrong: torch.Tensor

    @property
    def grid(self) -> tuple[int, int, int]:
        """Planes, and tiles down and across one."""
        return self.wrong.shape[0], self.wrong.shape[1], self.wrong.shape[3]

    def place(self, number: int) -> tuple[int, int, int]:
        """Plane, row and column of a tile, the last two counted in tiles."""
        _, down, across = self.grid
        return number // (down * across), number // across % down, number % across

    def tile(self, values: torch.Tensor, number: int) -> torch.Tensor:
        """The elements of one tile, of one of the three tensors."""
        plane, row, column = self.place(number)
        return values[plane, row, :, column].flatten()

    def touched(self) -> list[int]:
        """Some of the tiles with wrong elements, evenly chosen."""
        found = self.wrong.any(4).any(2).flatten().nonzero().flatten()
        if len(found) > TILES:
            found = found[torch.arange(TILES, device=found.device) * STRIDE % len(found)].unique()
        return found.tolist()  # type: ignore[no-any-return]


def tilings(seen: Moved) -> list[Tiles]:
    """Ways to cut the planes into equal tiles, those with the smallest first; see `divisors`."""
    _, height, width = seen.actual.shape
    sizes = [s for s in itertools.product(divisors(height), divisors(width)) if math.prod(s) >= LEAST_TILE]

    def cut(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        return values.unflatten(1, (-1, size[0])).unflatten(3, (-1, size[1]))

    return [
        Tiles(size, cut(seen.actual, size), cut(seen.expected, size), cut(seen.wrong, size))
        for size in sorted(sizes, key=math.prod)
    ]


def displaced(seen: Moved, tilings: list[Tiles]) -> dict[str, Any] | None:
    """Whole tiles that are expected at the places of others; of all sizes that explain it the largest."""
    for tiles in reversed(tilings):
        sources = _sources(seen, tiles) if math.prod(tiles.grid) > 1 else {}
        if not sources:
            continue
        kind = "displaced-tiles" if len(set(sources.values())) == len(sources) else "duplicated-tiles"
        first = min(sources)
        places = {"first": tiles.place(first), "source": tiles.place(sources[first])}
        return {"kind": kind, "share": 1.0, "tile": tiles.size, **places}
    return None


def _sources(seen: Moved, tiles: Tiles) -> dict[int, int]:
    """For every tile that was looked at the one that is expected to hold what it does; empty if one has none."""
    found = {}
    for number in tiles.touched():
        source = _source(seen, tiles, number)
        if source is None:
            return {}
        found[number] = source
    return found


def _source(seen: Moved, tiles: Tiles, number: int) -> int | None:
    """The tile that is expected to hold what this one does; a few of its elements are looked for first."""
    held = tiles.tile(tiles.actual, number)
    some = torch.arange(LOOKED_FOR, device=held.device) * STRIDE % held.numel()
    there = tiles.expected[:, :, some // tiles.size[1], :, some % tiles.size[1]].flatten(1)
    likely = seen.near(held[some].unsqueeze(1), there).double().mean(0) >= NEARLY_ALL
    for other in likely.nonzero().flatten()[:TILES].tolist():
        due = tiles.tile(tiles.expected, other)
        varied = bool(due.isfinite().all()) and float(due.std()) > ABSOLUTE * float(due.abs().max())
        if other != number and varied and float(seen.near(held, due).double().mean()) >= NEARLY_ALL:
            return int(other)
    return None


def mixed(tilings: list[Tiles]) -> dict[str, Any] | None:
    """Tiles whose wrong elements hold each other's values; of all sizes that explain it the smallest."""
    for tiles in tilings:
        touched = tiles.touched()
        if touched and all(_same_set(tiles, number) for number in touched):
            return {"kind": "mixed-tiles", "share": 1.0, "tile": tiles.size, "first": tiles.place(touched[0])}
    return None


def _same_set(tiles: Tiles, number: int) -> bool:
    """Whether the wrong elements of a tile hold what is expected in another order, so exactly that two samples of one distribution
    would not."""
    wrong = tiles.tile(tiles.wrong, number)
    actual, expected = (tiles.tile(values, number)[wrong] for values in (tiles.actual, tiles.expected))
    count = len(actual)
    if not LEAST_MIXED <= count <= MOST_MIXED or not bool((actual.isfinite() & expected.isfinite()).all()):
        return False
    spread = float(expected.std())
    error = float((actual - expected).square().mean().sqrt())
    apart = float((actual.sort().values - expected.sort().values).square().mean().sqrt())
    return error >= spread / 2 and spread > 0 and apart <= SAME_SET * spread / math.sqrt(count)
