"""`triage rules mutate`: whether the fixtures hold a rule to what it asks.

Each mutant asks a little less than the rule: an anchor, a stretch of fixed words, a class or a condition is gone. What the
fixtures then still accept, nothing there would tell from the rule: its near misses do not bite. That matters most where the mutant takes
an error of another place in upstream's source (`sites.jsonl`): there a near miss is missing. Mutants are made in the order of the
file, so two runs agree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from triage.knowledge.check import rivals
from triage.knowledge.coverage import SPELLINGS, error_of
from triage.knowledge.files import file_of, rules_root
from triage.knowledge.fixtures import Fixture, Read, fixture_paths, fixture_text, read_fixture, said_elsewhere
from triage.knowledge.load import load_rules
from triage.knowledge.match import record_of_error, try_rule
from triage.knowledge.rule import Rule, RuleSet
from triage.knowledge.sites import Site
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
class Survivor:
    """A mutant that every fixture accepts; `takes` is an error of another place in upstream that it matches, if one is known."""

    lost: str
    takes: Site | None = None


@dataclass(frozen=True)
class Mutated:
    """What became of the mutants of one rule; `untold` says why its fixtures can tell nothing of them."""

    rule: Rule
    mutants: int
    survivors: tuple[Survivor, ...] = ()
    untold: str | None = None


@dataclass(frozen=True)
class _Tried:
    """A mutant under a code of its own, so that all can be looked for at once."""

    rule: Rule
    lost: str
    mutant: Rule


def mutate_rules(
    read: Read, root: Path | None = None, codes: Collection[str] = (), sites: Iterable[Site] = ()
) -> list[Mutated]:
    """Mutate all rules, or those of `codes`; `sites` are the places whose errors a mutant may take.

    Of a rule that its own fixtures do not fit no mutant is tried: all would seem to be caught.

    Raises `KnowledgeError` where a rule or a fixture cannot be read, and `KeyError` for a code without a rule.
    """
    root = root or rules_root()
    if unknown := sorted(code for code in codes if file_of(code, root) is None):
        raise KeyError(unknown[0])
    rules = list(load_rules(root))
    asked = [rule for rule in rules if not codes or rule.code in codes]
    fixtures = {rule.code: [read_fixture(path, read) for path in fixture_paths(rule)] for rule in asked}
    untold = {rule.code: _untold(rule, fixtures[rule.code]) for rule in asked}
    able = [rule for rule in asked if untold[rule.code] is None]
    tried = {f"{rule.code}/{number}": one for rule in able for number, one in enumerate(_tried(rule))}
    alive = {key: one for key, one in tried.items() if _accepted(one, fixtures[one.rule.code])}
    for key in _takers_of_hits(alive, rules, read):
        del alive[key]
    takes = _takers_of_sites(alive, sites)
    counts = Counter(one.rule.code for one in tried.values())
    left = {rule.code: [(k, one) for k, one in alive.items() if one.rule is rule] for rule in asked}
    return [
        Mutated(
            rule,
            counts[rule.code],
            tuple(Survivor(one.lost, takes.get(key)) for key, one in left[rule.code]),
            untold[rule.code],
        )
        for rule in asked
    ]


def show_mutated(found: Sequence[Mutated]) -> str:
    """What survived, a line each, and the counts."""
    lines = []
    for one in found:
        if one.untold:
            lines.append(f"{one.rule.code} {one.rule.name}: nothing was tried: {one.untold}")
        for survivor in one.survivors:
            site = survivor.takes
            takes = f", and would take {site.file}:{site.line} {site.template[:80]!r}" if site else ""
            lines.append(f"{one.rule.code} {one.rule.name}: nobody misses {survivor.lost}{takes}")
    mutants = sum(one.mutants for one in found)
    survivors = [survivor for one in found for survivor in one.survivors]
    taking = sum(1 for survivor in survivors if survivor.takes)
    tried = [one for one in found if not one.untold]
    held = sum(1 for one in tried if not any(survivor.takes for survivor in one.survivors))
    if len(tried) < len(found):
        lines.append(f"not tried: {len(found) - len(tried)}; `triage rules check` says more")
    lines.append(
        f"{len(tried)} rules, {mutants} mutants: fixtures catch {mutants - len(survivors)}, {taking} more take another error of "
        f"upstream, {len(survivors) - taking} take none that is known; {held} rules need no further near miss"
    )
    return "\n".join(lines) + "\n"


def _tried(rule: Rule) -> Iterator[_Tried]:
    for number, mutant in enumerate(mutants(rule)):
        yield _Tried(rule, mutant.lost, replace(mutant.rule, code=f"{rule.code}/{number}"))


def _untold(rule: Rule, own: Sequence[Fixture]) -> str | None:
    """Why a rule's own fixtures can tell nothing of its mutants; None where they can."""
    if not any(fixture.hit for fixture in own):
        return "no hit-* fixture lies beside it"
    for fixture in own:
        if bool(fixture.trials(rule)) is not fixture.hit:
            return f"it does not match {fixture.name}" if fixture.hit else f"it matches the near miss {fixture.name}"
    if not _accepted(_Tried(rule, "", rule), own):
        return "it matches when another library says the words of its hits"
    return None


def _accepted(one: _Tried, own: Sequence[Fixture]) -> bool:
    """Whether the rule's own fixtures tell nothing: every hit matches, no near miss does, nor the words of a hit when
    another library says them."""
    for fixture in own:
        trials = fixture.trials(one.mutant)
        if bool(trials) is not fixture.hit:
            return False
        forged = [said_elsewhere(record) for record, _ in trials]
        if not reads_frames(one.rule) and any(record and try_rule(one.mutant, record, {}).matched for record in forged):
            return False
    return True


def _takers_of_hits(alive: Mapping[str, _Tried], rules: Sequence[Rule], read: Read) -> set[str]:
    """The mutants that match a record which another rule's hit shows: `check` would tell."""
    glance = RuleSet(tuple(one.mutant for one in alive.values()))
    takers = set()
    for other in rules:
        for path in fixture_paths(other):
            if not path.name.startswith("hit-"):
                continue
            if path.suffix == ".log" and not glance.scanner.possible(fixture_text(path)):
                continue  # no record of it can hold what no line of it does
            fixture = read_fixture(path, read)
            for record, _ in fixture.trials(other):
                facts = fixture.facts_of(record)
                for mutant in glance.possible(record.on, record.text):
                    if rivals(alive[mutant.code].rule, other) and try_rule(mutant, record, facts).matched:
                        takers.add(mutant.code)
    return takers


def _takers_of_sites(alive: Mapping[str, _Tried], sites: Iterable[Site]) -> dict[str, Site]:
    """The mutants that match the error of a site which their rule lets go however it is spelled, with the first such site."""
    glance = RuleSet(tuple(one.mutant for one in alive.values()))
    takes: dict[str, Site] = {}
    for site in sites:
        records = [record_of_error(error_of(site, number), site.stage) for number in range(SPELLINGS)]
        for record in records:
            for mutant in glance.possible(record.on, record.text):
                if mutant.code in takes or not try_rule(mutant, record, {}).matched:
                    continue
                rule = alive[mutant.code].rule
                if not any(try_rule(rule, spelled, {}).matched for spelled in records):
                    takes[mutant.code] = site
    return takes


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
