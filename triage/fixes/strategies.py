"""All strategies by the names that rules give them (`[fix] strategy`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from triage.fixes import names, shapes
from triage.fixes.proposal import Proposal, Question, Strategy

STRATEGIES: Mapping[str, Strategy] = {
    "nearest-attribute": names.nearest_attribute,
    "nearest-module": names.nearest_module,
    "nearest-variable": names.nearest_variable,
    "nearest-keyword": names.nearest_keyword,
    "nearest-word": names.nearest_word,
    "swap-tile-dims": shapes.swap_tile_dims,
    "tile-extent": shapes.tile_extent,
    "transpose-flag": shapes.transpose_flag,
    "index-rank": shapes.index_rank,
}


def propose(strategies: Iterable[str], question: Question) -> Iterator[Proposal]:
    """What the named strategies answer, in their order."""
    for name in strategies:
        yield from STRATEGIES[name](question)
