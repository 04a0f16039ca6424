"""Minimizing a set by trial: delta debugging. Pure; the trial is the caller's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


class OutOfBudget(Exception):
    """Raised by a trial that may not be made any more; `minimize` then keeps what it has."""


def minimize(
    items: Sequence[T], holds: Callable[[list[T]], bool], first: Sequence[Sequence[T]] = ()
) -> tuple[list[T], bool]:
    """A subset of `items`, in their order, for which `holds`, and whether it is known to be 1-minimal.

    1-minimal: taking away any single item makes `holds` false. `holds(items)` is taken for granted. `first` are
    subsets to be tried before anything else, most hopeful first. The granularity of the search goes from halves down
    to single items (Zeller and Hildebrandt's ddmin, complements only: a subset that holds alone is the complement of
    the rest).
    """
    kept = list(items)
    try:
        for guess in first:
            chosen = [item for item in kept if item in guess]
            if len(chosen) < len(kept) and holds(chosen):
                kept = chosen
                break
        parts = 2
        while kept:
            parts = min(parts, len(kept))
            size, extra = divmod(len(kept), parts)
            cuts = [n * size + min(n, extra) for n in range(parts + 1)]
            for start, end in itertools.pairwise(cuts):
                rest = kept[:start] + kept[end:]
                if holds(rest):
                    kept = rest
                    parts = max(parts - 1, 2)
                    break
            else:
                if parts == len(kept):
                    return kept, True
                parts *= 2
    except OutOfBudget:
        return kept, False
    return kept, True
