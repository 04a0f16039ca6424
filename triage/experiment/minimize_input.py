"""The simplest input that shows a mismatch: fixed random numbers, smaller shapes, simple values in the place of random ones.

Every trial is a text, run and judged by the caller: it holds if it shows the same fault, with the same pattern of wrong elements.

    seed      torch's random numbers are fixed, so that what follows is not up to chance
    values    all random tensors hold ones; a single one; 0, 1, 2, …; small integers; if none shows it, as many as do hold ones
    shapes    every number of the script is made as small as it can be
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from triage.experiment.inputs import KINDS, SMALL, filled, random_calls, seeded, unseeded
from triage.experiment.minimal import OutOfBudget
from triage.experiment.parts import numbers, with_numbers
from triage.model import Comparison
from triage.numerics.pattern import describe

#: whether a text shows the fault, and with what comparison; may raise `OutOfBudget`
Shows = Callable[[str], Comparison | None]


@dataclass(frozen=True)
class SimplestInput:
    """`text` is the script with that input; `values` a name of `inputs.KINDS`, mixed (`simple` of `total` random tensors hold
    ones), random or given (nothing of it is random); `said` tells it in words. `finished`: nothing simpler was left to be tried."""

    text: str
    values: str
    simple: int
    total: int
    said: str
    comparison: Comparison
    finished: bool


def simple_values(source: str, comparison: Comparison, shows: Shows) -> SimplestInput:
    """The simplest values found for the random tensors of a script that shows a mismatch, its `comparison`."""
    search = _Search(source, comparison, shows)
    return search.result(search.try_values)


def small_shapes(before: SimplestInput, text: str, comparison: Comparison, shows: Shows) -> SimplestInput:
    """The smallest shapes for a script, `text`, that came of one with simple values by taking parts away."""
    search = _Search(text, comparison, shows)
    search.values, search.simple, search.total = before.values, before.simple, before.total
    found = search.result(search.try_shapes)
    return replace(found, finished=before.finished and found.finished)


class _Search:
    def __init__(self, source: str, comparison: Comparison, shows: Shows) -> None:
        self.text, self.comparison, self.shows = source, comparison, shows
        self.simple, self.total = 0, len(random_calls(source))
        self.values = "random" if self.total else "given"

    def result(self, search: Callable[[], None]) -> SimplestInput:
        """What a search finds before the time is over."""
        try:
            search()
            finished = True
        except OutOfBudget:
            finished = False
        said = self._said(finished)
        return SimplestInput(self.text, self.values, self.simple, self.total, said, self.comparison, finished)

    def _try(self, text: str | None) -> bool:
        if text is None or text == self.text:
            return False
        comparison = self.shows(text)
        if comparison is None:
            return False
        self.text, self.comparison = text, comparison
        return True

    def try_values(self) -> None:
        if not self.total:
            return
        self._try(seeded(self.text))
        for kind in KINDS:
            if self._try(filled(self.text, random_calls(self.text), kind)):
                self.values, self.simple = kind, self.total
                self._try(unseeded(self.text))
                return
        at = 0
        while at < len(calls := random_calls(self.text)) and self.total > 1:
            if self._try(filled(self.text, [calls[at]], "ones")):
                self.values, self.simple = "mixed", self.simple + 1
            else:
                at += 1

    def try_shapes(self) -> None:
        """Each number as small as it can be wherever it stands, from the largest; until nothing more goes."""
        again = True
        while again:
            again = False
            for number in numbers(self.text, SMALL):
                powers = [1 << n for n in range(number.bit_length()) if 1 << n < number]
                again |= any(self._try(with_numbers(self.text, {number: smaller})) for smaller in powers)

    def _said(self, finished: bool) -> str:
        pattern = self.comparison.pattern
        wrong = describe(pattern) if pattern else "the comparison fails"
        shape = "×".join(map(str, self.comparison.shape))
        where = f"{wrong}, at shape {shape}" if shape else wrong
        if self.values in KINDS:
            values = "all ones" if self.values == "ones" else KINDS[self.values]
            return f"{values} already show it: {where}"
        if self.values == "mixed":
            return f"ones in {self.simple} of {self.total} random tensors show it: {where}"
        if not self.total:
            return f"its input is not random: {where}"
        return f"{'no simpler values than random ones showed it' if finished else 'random values'}: {where}"
