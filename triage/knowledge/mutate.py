"""`triage rules mutate`: whether the fixtures hold a rule to what it asks.

Each mutant asks a little less than the rule: an anchor, a stretch of fixed words, a class or a condition is gone. What the
fixtures then still accept, nothing there would tell from the rule: its near misses do not bite. Mutants are made in the order
of the file, so two runs agree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from triage.knowledge.check import rivals
from triage.knowledge.files import rules_root
from triage.knowledge.fixtures import Fixture, Read, fixture_paths, read_fixture, said_elsewhere
from triage.knowledge.load import load_rules
from triage.knowledge.match import Record, try_rule
from triage.knowledge.pattern import anchors
from triage.knowledge.rule import Rule
from triage.knowledge.sound import reads_frames

#: Fixed words shorter than this are punctuation around a value; without them the expression says the same.
WORDS = 4
#: One item of an expression: an escape, a class, the begin of a group, a quantifier, or one character.
ITEM = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|\(\?P=\w+\)|\(\?<?[=!]|\(\?[a-zA-Z-]*[:)]|(?:[*+?]|\{\d*,?\d*\})[?+]?|.",
    re.DOTALL,
)
ANCHORS = ("^", "$", r"\b", r"\B")
CLASSES = re.compile(r"\\[dwsDWS]|\[.*\]", re.DOTALL)
LOOK = re.compile(r"\(\?<?[=!]")
LETTERS = re.compile(r"[A-Za-z]{2}")
QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")
ESCAPED_LITERAL = re.compile(r"\\[^\w]")
SPECIAL = frozenset("()|^$.*+?{}[]\\")
#: What a class or a stretch of words becomes: anything on the line.
ANYTHING = r"[^\n]"


class Mutant(NamedTuple):
    """A rule that asks less; `lost` says what is gone."""

    lost: str
    rule: Rule


@dataclass(frozen=True)
class Mutated:
    """What became of the mutants of one rule: how many there are, and what was lost in those that every fixture accepts."""

    rule: Rule
    mutants: int
    survivors: tuple[str, ...] = ()


@dataclass
class _Corpus:
    """All fixtures, and the records that hits of each rule show."""

    fixtures: dict[str, list[Fixture]] = field(default_factory=dict)
    shown: dict[str, list[tuple[Record, Any]]] = field(default_factory=dict)


def mutate_rules(read: Read, root: Path | None = None, codes: Collection[str] = ()) -> list[Mutated]:
    """Mutate all rules, or those of `codes`. Raises as `load_rules` and `read_fixture` do, `KeyError` for an unknown code."""
    rules = load_rules(root or rules_root())
    if unknown := sorted(set(codes) - {rule.code for rule in rules}):
        raise KeyError(unknown[0])
    corpus = _Corpus()
    for rule in rules:
        fixtures = [read_fixture(path, read) for path in fixture_paths(rule)]
        corpus.fixtures[rule.code] = fixtures
        hits = [fixture for fixture in fixtures if fixture.hit]
        corpus.shown[rule.code] = [(r, f.facts_of(r)) for f in hits for r, _ in f.trials(rule)]
    return [_mutated(rule, list(rules), corpus) for rule in rules if not codes or rule.code in codes]


def show_mutated(found: Sequence[Mutated]) -> str:
    """What survived, a line each, and the counts."""
    lines = [f"{one.rule.code} {one.rule.name}: nobody misses {lost}" for one in found for lost in one.survivors]
    mutants, survivors = sum(one.mutants for one in found), sum(len(one.survivors) for one in found)
    held = sum(1 for one in found if not one.survivors)
    lines.append(
        f"{len(found)} rules, {mutants} mutants, {mutants - survivors} caught; {held} rules are held in all they ask"
    )
    return "\n".join(lines) + "\n"


def _mutated(rule: Rule, rules: list[Rule], corpus: _Corpus) -> Mutated:
    tried = list(mutants(rule))
    rival = [shown for other in rules if rivals(rule, other) for shown in corpus.shown[other.code]]
    others = [(record, facts) for record, facts in rival if record.on == rule.match.on]
    alive = [
        mutant.lost
        for mutant in tried
        if _accepted(mutant.rule, corpus.fixtures[rule.code], others, not reads_frames(rule))
    ]
    return Mutated(rule, len(tried), tuple(alive))


def _accepted(mutant: Rule, own: Sequence[Fixture], others: Sequence[tuple[Record, Any]], elsewhere: bool) -> bool:
    """Whether no check would tell: every hit matches, no near miss does, and no record of another rule.

    `elsewhere`: nor do the words of a hit when another library says them.
    """
    for fixture in own:
        trials = fixture.trials(mutant)
        if bool(trials) is not fixture.hit:
            return False
        forged = [said_elsewhere(record) for record, _ in trials]
        if elsewhere and any(record and try_rule(mutant, record, {}).matched for record in forged):
            return False
    words = anchors(mutant.match.text or "")
    likely = (one for one in others if not words or any(word in (one[0].text or "") for word in words))
    return not any(try_rule(mutant, record, facts).matched for record, facts in likely)


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every rule that asks one thing less."""
    match = rule.match
    for key in ("text", "line"):
        for lost, pattern in weaker(getattr(match, key) or ""):
            changes: dict[str, Any] = {key: pattern}
            yield Mutant(f"{lost} in {key}", replace(rule, match=replace(match, **changes)))
    if match.line:
        yield Mutant("line", replace(rule, match=replace(match, line=None)))
    if match.raised_in:
        yield Mutant("raised_in", replace(rule, match=replace(match, raised_in=())))
    for key in ("when", "unless"):
        asked = getattr(match, key)
        for number, condition in enumerate(asked):
            fewer = asked[:number] + asked[number + 1 :]
            yield Mutant(f"`{condition.text}`", replace(rule, match=replace(match, **{key: fewer})))


def weaker(pattern: str) -> Iterator[tuple[str, str]]:
    """Expressions that match more, and what each lost: an anchor, a look around, a stretch of words, or a class."""
    items = ITEM.findall(pattern)
    at = 0
    while at < len(items):
        item, stop, instead = items[at], at + 1, ""
        if LOOK.fullmatch(item):
            stop = _group_end(items, at)
            lost = f"the look around {''.join(items[at:stop])}"
        elif (end := _words_end(items, at)) > at:
            stop, words, instead = end, "".join(items[at:end]), f"{ANYTHING}*?"
            lost = f"the words {words!r}" if len(words) >= WORDS and LETTERS.search(words) else ""
        elif item in ANCHORS:
            lost = f"the anchor {item}"
        else:
            instead = ANYTHING
            lost = f"the class {item}" if CLASSES.fullmatch(item) and item != ANYTHING else ""
        if lost:
            yield lost, "".join([*items[:at], instead, *items[stop:]])
        at = stop


def _group_end(items: Sequence[str], at: int) -> int:
    """The item behind the group that begins at an item."""
    depth = 0
    for number in range(at, len(items)):
        depth += items[number].startswith("(") and not items[number].endswith(")")
        depth -= items[number] == ")"
        if depth == 0:
            return number + 1
    return len(items)


def _words_end(items: Sequence[str], at: int) -> int:
    """Where the stretch of fixed characters that begins at an item ends; a repeated character is not part of it."""
    stop = at
    while stop < len(items) and _fixed(items[stop]):
        stop += 1
    repeated = stop < len(items) and QUANTIFIER.fullmatch(items[stop])
    return stop - 1 if repeated and stop > at else stop


def _fixed(item: str) -> bool:
    return item not in SPECIAL if len(item) == 1 else bool(ESCAPED_LITERAL.fullmatch(item))
