"""What several runs of one comparison with the same random numbers say together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: how sure it is to be that a fault of the smallest rate would have been seen
SURE = 0.95


@dataclass(frozen=True)
class Repeated:
    """`rate`: failed runs over all. `wrong_set`: `same` or `changes`, None where fewer than two runs failed or the elements of one
    are not known. `least`: the smallest rate of failure, or of another result, that so many runs show with 95 %."""

    runs: int
    failed: int
    wrong_set: str | None
    least: float

    @property
    def rate(self) -> float:
        return self.failed / self.runs


def repeated(digests: Sequence[str | None]) -> Repeated:
    """`digests`: one a run, of the set of its wrong elements, empty where that is not known; None of a run that agreed.
    Raises `ValueError` for no run."""
    if not digests:
        raise ValueError("no run")
    failed = [digest for digest in digests if digest is not None]
    different = set(failed) - {""}
    known = len(failed) > 1 and (len(different) > 1 or "" not in failed)
    wrong_set = ("changes" if len(different) > 1 else "same") if known else None
    return Repeated(len(digests), len(failed), wrong_set, least_rate(len(digests)))


def least_rate(runs: int) -> float:
    """The smallest rate of a fault that shows at least once in so many runs, with 95 %."""
    return float(1.0 - (1.0 - SURE) ** (1.0 / runs))
