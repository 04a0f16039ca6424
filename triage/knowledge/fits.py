"""Which rules fit a text, and which nearly do, shown with what matched and what is missing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import regex

from triage import conditions
from triage.knowledge.match import Record, Trial, invariant, search, try_rule, typed
from triage.knowledge.near import NearMiss
from triage.knowledge.pattern import Alternative, alternatives, specificity
from triage.knowledge.rule import Rule, RuleSet

WORD = regex.compile(r"\w+(?:[.:]+\w+)*")
#: Characters around a match that are shown of its line.
AROUND = 40
#: Fits that are shown; a log of a whole test run can hold one of every kind.
MOST_FITS = 8


@dataclass(frozen=True)
class Fit:
    """A rule whose text fits. `start` and `end` are offsets in the text; `line` counts from 1.

    `open` holds what the rule asks beyond the text and nobody could see; `against` what was seen and disagrees: with
    either, this is no match of the rule.
    """

    rule: Rule
    start: int
    end: int
    line: int
    captures: dict[str, Any] = field(default_factory=dict)
    open: tuple[str, ...] = ()
    against: str | None = None


@dataclass(frozen=True)
class Fits:
    """What was found in `text`. `numbers` are the numbers that its lines have elsewhere, if it is a part of something."""

    text: str
    fits: tuple[Fit, ...]
    near: tuple[NearMiss, ...]
    numbers: tuple[int, ...] = ()

    def number(self, line: int) -> int:
        """The number to show for a line of `text`, both counted from 1."""
        return self.numbers[line - 1] if line <= len(self.numbers) else line


def find_fits(
    text: str, rules: RuleSet, records: Sequence[Record] = (), facts: Mapping[str, Any] | None = None
) -> Fits:
    """The rules that fit a text, best first, and the nearest others. `records` are what readers found in the text."""
    possible = rules.scanner.possible(text)
    tried = [rule for rule in rules if rule.code in possible]
    found = [fit for rule in tried if (fit := _fit(rule, text, records, facts or {}))]
    found.sort(key=lambda fit: (fit.against is not None, -specificity(fit.rule.match.text or ""), fit.rule.code))
    near = rules.near.nearest(text, [fit.rule.code for fit in found])
    return Fits(text, tuple(found), tuple(near))


def _fit(rule: Rule, text: str, records: Sequence[Record], facts: Mapping[str, Any]) -> Fit | None:
    try:
        found = search(rule.match.text or "", text)
    except TimeoutError:
        return None
    if found is None:
        return None
    captures = {name: typed(value) for name, value in found.groupdict().items() if value is not None}
    unseen, against = _beyond_text(rule, captures, records, facts)
    line = text.count("\n", 0, found.start()) + 1
    return Fit(rule, found.start(), found.end(), line, captures, unseen, against)


def _beyond_text(
    rule: Rule, captures: dict[str, Any], records: Sequence[Record], facts: Mapping[str, Any]
) -> tuple[tuple[str, ...], str | None]:
    """What the rule asks besides the text: what nobody could see, and what speaks against it."""
    tries: list[Trial] = [try_rule(rule, r, facts) for r in records if r.on == rule.match.on and r.text is not None]
    tries = [trial for trial in tries if trial.captures or trial.matched]
    if any(trial.matched for trial in tries):
        return (), None
    if tries:
        return (), tries[0].why
    unseen = []
    for condition in rule.match.when + invariant(rule, captures):
        asked = conditions.holds(condition, {**facts, **captures})
        known = condition.fact in captures or condition.fact in facts
        if not asked.holds and known:
            return (), f"{condition.text}: {asked.why}"
        if not asked.holds:
            unseen.append(condition.text)
    if rule.match.raised_in:
        unseen.append(f"raised in {' or '.join(rule.match.raised_in)}")
    return tuple(unseen), None


def words_present(rule: Rule, text: str) -> float:
    """The share of the words that a rule's expression demands, in its best way to match, which the text has."""
    there = set(_words(text))
    ways = [_demanded(way) for way in alternatives(rule.match.text or "")]
    return max((len(there.intersection(way)) / len(way) for way in ways if way), default=0.0)


@lru_cache(maxsize=4096)
def _demanded(way: Alternative) -> tuple[str, ...]:
    """The different words of a way to match."""
    return tuple(dict.fromkeys(word for fragment in way for word in _words(fragment)))


def _words(text: str) -> list[str]:
    return [part for word in WORD.findall(text) for part in _parts(word)]


def _parts(word: str) -> list[str]:
    return [part for part in regex.split(r"[.:]+", word.lower()) if len(part) > 1 or part.isalnum()]


def show_fits(found: Fits) -> str:
    """The fits with the matched part marked, then the nearest misses with what they lack."""
    parts = [_show_fit(fit, found) for fit in found.fits[:MOST_FITS]]
    if len(found.fits) > MOST_FITS:
        more = ", ".join(fit.rule.code for fit in found.fits[MOST_FITS:])
        parts.append(f"Further rules whose text fits: {more}.")
    if not found.fits:
        parts.append("No rule fits this text.")
    if found.near:
        parts.append("\n".join(["Nearest misses:", *(_show_miss(miss, found) for miss in found.near)]))
    return "\n\n".join(parts) + "\n"


def _show_fit(fit: Fit, found: Fits) -> str:
    rule = fit.rule
    lines = [f"{rule.code} {rule.name}: {rule.title}"]
    lines += [f"  {line}" for line in _marked(found.text, fit, found.number(fit.line))]
    if fit.captures:
        lines.append("  " + ", ".join(f"{name} = {conditions.show(value)}" for name, value in fit.captures.items()))
    if fit.against:
        lines.append(f"  but it is not this rule: {fit.against}")
    elif fit.open:
        lines.append(f"  not seen in this text: {'; '.join(fit.open)}")
    lines.append(f"  triage explain {rule.code}")
    return "\n".join(lines)


def _marked(text: str, fit: Fit, number: int) -> list[str]:
    """The first line of the match with its line number and the matched part underlined."""
    start, end = fit.start, fit.end
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", start)
    stop = len(text) if stop < 0 else stop
    end = min(max(end, start + 1), stop)
    left = max(begin, start - AROUND)
    line = printable(text[left : min(stop, end + AROUND)])
    head = f"{number} | " + ("…" if left > begin else "")
    return [head + line, " " * (len(head) + start - left) + "^" * max(1, end - start)]


def printable(text: str) -> str:
    """Text for a terminal: control characters, which could steer it, become a visible stand-in of one column."""
    return "".join(c if c.isprintable() else "·" for c in text)


def _show_miss(miss: NearMiss, found: Fits) -> str:
    head = f"  {miss.rule.code} {miss.rule.name}: {miss.share:.0%} alike (line {found.number(miss.line)})"
    gaps = [printable(str(gap)) for gap in miss.missing] or [printable(miss.differs or "")]
    return "\n".join([head, *(f"    {gap}" for gap in gaps)])
