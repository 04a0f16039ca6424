"""Which rules fit a text, and which nearly do. Pure.

A rule nearly fits if much of what its expression demands is there though the whole is not: texts drift between versions,
so nearness is measured by the words of the demanded fragments, each weighed by how few rules use it, and not by the
order or the punctuation around them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import regex

from triage import conditions
from triage.knowledge.match import Record, Trial, invariant, search, try_rule, typed
from triage.knowledge.pattern import Alternative, alternatives, specificity
from triage.knowledge.rule import Rule, RuleSet

#: A near miss has at least this share of the weight of the words that the rule demands, …
NEAR = 0.5
#: … and at least so many different words, so that one rare word alone makes none.
NEAR_WORDS = 2
#: … and one of them is used by at most this share of the rules: "check failed" alone is near nothing.
TELLING = 0.05
WORD = regex.compile(r"\w+(?:[.:]+\w+)*")


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
class NearMiss:
    """A rule whose text does not fit: the share of demanded words that are there, and the fragments that are not."""

    rule: Rule
    share: float
    present: tuple[str, ...]
    missing: tuple[str, ...]
    line: int | None = None


@dataclass(frozen=True)
class Fits:
    text: str
    fits: tuple[Fit, ...]
    near: tuple[NearMiss, ...]


def find_fits(
    text: str, rules: RuleSet, records: Sequence[Record] = (), facts: Mapping[str, Any] | None = None
) -> Fits:
    """The rules that fit a text, best first, and the nearest others. `records` are what readers found in the text."""
    texts = [rule for rule in rules if rule.match.text]
    found = [fit for rule in texts if (fit := _fit(rule, text, records, facts or {}))]
    found.sort(key=lambda fit: (fit.against is not None, -specificity(fit.rule.match.text or ""), fit.rule.code))
    fitting = {fit.rule.code for fit in found}
    return Fits(text, tuple(found), tuple(_near(text, texts, fitting)))


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


def _near(text: str, rules: Sequence[Rule], fitting: set[str]) -> list[NearMiss]:
    """The nearest rules that do not fit, at most five."""
    ways = {rule.code: alternatives(rule.match.text or "") for rule in rules}
    used = Counter(word for some in ways.values() for word in {word for way in some for word in _demanded(way)})
    weights = {word: math.log(1 + len(ways) / count) for word, count in used.items()}
    telling = {word for word, count in used.items() if count <= max(2, TELLING * len(ways))}
    there, folded = set(_words(text)), " ".join(text.lower().split())
    misses = []
    for rule in rules:
        if rule.code in fitting:
            continue
        tried = [_miss(rule, way, folded, there, weights) for way in ways[rule.code]]
        best = max(tried, key=lambda miss: miss.share, default=None)
        if best and best.share >= NEAR and len(best.present) >= NEAR_WORDS and telling.intersection(best.present):
            misses.append(best)
    nearest = sorted(misses, key=lambda miss: (-miss.share, miss.rule.code))[:5]
    return [replace(miss, line=_line_of(text, miss.present)) for miss in nearest]


def _miss(rule: Rule, way: Alternative, folded: str, there: set[str], weights: Mapping[str, float]) -> NearMiss:
    words = list(_demanded(way))
    total = sum(weights[word] for word in words)
    present = [word for word in words if word in there]
    share = sum(weights[word] for word in present) / total if total else 0.0
    missing = tuple(f for f in way if _demanded((f,)) and " ".join(f.lower().split()) not in folded)
    return NearMiss(rule, share, tuple(present), missing)


def words_present(rule: Rule, text: str) -> float:
    """The share of the words that a rule's expression demands, in its best way to match, which the text has."""
    there = set(_words(text))
    ways = [_demanded(way) for way in alternatives(rule.match.text or "")]
    return max((len(there.intersection(way)) / len(way) for way in ways if way), default=0.0)


def _line_of(text: str, words: Sequence[str]) -> int | None:
    """The line that holds the most of the words."""
    counts = [
        (sum(word in line.lower() for word in words), -number) for number, line in enumerate(text.splitlines(), 1)
    ]
    most, number = max(counts, default=(0, 0))
    return -number if most else None


@lru_cache(maxsize=4096)
def _demanded(way: Alternative) -> tuple[str, ...]:
    """The different words of a way to match."""
    return tuple(dict.fromkeys(word for fragment in way for word in _words(fragment)))


def _words(text: str) -> list[str]:
    return [part for word in WORD.findall(text) for part in _parts(word)]


def _parts(word: str) -> list[str]:
    return [part for part in regex.split(r"[.:]+", word.lower()) if len(part) > 1 or part.isalnum()]


def show_fits(found: Fits, color: bool = False) -> str:
    """The fits with the matched span marked, then the nearest misses with what they lack."""
    parts = [_show_fit(fit, found.text, color) for fit in found.fits]
    if not found.fits:
        parts.append("No rule fits this text.")
    if found.near:
        parts.append("\n".join(["Nearest misses:", *(_show_miss(miss) for miss in found.near)]))
    return "\n\n".join(parts) + "\n"


def _show_fit(fit: Fit, text: str, color: bool) -> str:
    rule = fit.rule
    lines = [f"{rule.code} {rule.name}: {rule.title}"]
    lines += [f"  {line}" for line in _marked(text, fit.start, fit.end, color)]
    if fit.captures:
        lines.append("  " + ", ".join(f"{name} = {conditions.show(value)}" for name, value in fit.captures.items()))
    if fit.against:
        lines.append(f"  but it is not this rule: {fit.against}")
    if fit.open:
        lines.append(f"  not seen in this text: {'; '.join(fit.open)}")
    lines.append(f"  triage explain {rule.code}")
    return "\n".join(lines)


def _marked(text: str, start: int, end: int, color: bool) -> list[str]:
    """The first line of the match with its line number and the matched part underlined."""
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", start)
    stop = len(text) if stop < 0 else stop
    end = min(max(end, start + 1), stop)
    left = max(begin, start - 40)
    line = _printable(text[left : min(stop, end + 40)])
    number = text.count("\n", 0, start) + 1
    head = f"{number} | " + ("…" if left > begin else "")
    marks = "^" * max(1, end - start)
    if color:
        marks = f"\x1b[1m{marks}\x1b[0m"
    return [head + line, " " * (len(head) + start - left) + marks]


def _printable(text: str) -> str:
    """Text for a terminal: control characters, which could steer it, become a visible stand-in of one column."""
    return "".join(c if c.isprintable() else "·" for c in text)


def _show_miss(miss: NearMiss) -> str:
    where = f" (line {miss.line})" if miss.line else ""
    lacks = ", ".join(repr(fragment) for fragment in miss.missing) or "the order or the text between"
    return f"  {miss.rule.code} {miss.rule.name}: {miss.share:.0%} of its words are there{where}; missing: {lacks}"
