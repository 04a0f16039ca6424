"""Whether a rule is sound by itself: its expressions, its conditions, and that it claims no more than it matched. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import regex

from triage import conditions
from triage.knowledge import pattern
from triage.knowledge.facts import FactName
from triage.knowledge.files import PLACEHOLDER
from triage.knowledge.match import compiled
from triage.knowledge.rule import Rule

#: Literal characters that every way to match must demand: less would match by chance.
SPECIFIC = 8
#: Fewer suffice in the user's line, which is read only where the text fits.
SPECIFIC_LINE = 4
#: Seconds of the processor that a search may take in a hostile text of `pattern.PROBE_LENGTH` characters; a linear one
#: takes under 0.01, and one that grows with the square of the length hits the timeout of `match` in a text ten times as long.
SLOW = 0.2
#: Seconds after which a search is given up, whatever else the machine does meanwhile.
GIVE_UP = 2.0
#: Kinds of error that have no raising frame, so that a rule about them need not name one.
FRAMELESS = frozenset({"compiler", "signal", "timeout"})
#: Fields that hold whatever a lint measured.
OPEN_FIELDS = "hazard."
#: What `triage rules new` leaves for the author to fill in.
UNFILLED = "TODO"
#: Sections whose texts are filled with what was matched.
FILLED = ("claim", "fix")
NUMBER = re.compile(r"(?<![\w.])\d{2,}(?![\w.])")


class Complaint(NamedTuple):
    """What is wrong with a key of the rule file; `shows` is the part of its value."""

    section: str
    key: str
    text: str
    shows: str = ""


def complaints(
    rule: Rule, names: Mapping[str, FactName], strategies: Collection[str] | None = None
) -> Iterator[Complaint]:
    """All that is wrong with a rule. `names` are the declared facts, `strategies` the repairs that there are, if known."""
    yield from _expressions(rule)
    yield from _raiser(rule)
    yield from _conditions(rule, names)
    yield from _claim(rule, names)
    for name in rule.fix.strategies:
        if strategies is not None and name not in strategies:
            yield Complaint("fix", "strategy", f"[fix] strategy: there is no strategy {name!r}", name)
    raisers = (("match", "raised_in", entry) for entry in rule.match.raised_in)
    for section, key, text in (*raisers, *_texts(rule)):
        if UNFILLED in text:
            yield Complaint(section, key, f"{key} is not filled in: {UNFILLED}", UNFILLED)


def _expressions(rule: Rule) -> Iterator[Complaint]:
    for key, text, least in (("text", rule.match.text, SPECIFIC), ("line", rule.match.line, SPECIFIC_LINE)):
        for problem in _expression_problems(text, least) if text else ():
            yield Complaint("match", key, f"{key} {problem}")


def _expression_problems(text: str, least: int) -> Iterator[str]:
    try:
        expression = compiled(text)
    except regex.error as error:  # what `re` reads is not always what `regex` reads
        yield f"is not a regular expression that re and regex both read: {error}"
        return
    if expression.search(""):
        yield "matches the empty text"
        return
    if (specific := pattern.specificity(text)) < least:
        yield f"can match with {specific} literal characters; at least {least}, or it matches by chance"
    elif not pattern.anchors(text):
        yield "demands no fixed words, so that every line of a log must be tried: leave out (?i) and name the words"
    if pattern.asks_for_ends(text):
        yield r"asks for the begin or end of the text (\A, \Z): it stands in a longer one too; use ^ and $"
    if pattern.nested_repeat(text):
        yield "repeats a repeat without bound, which can take exponential time"
        return
    for probe in pattern.probes(text):
        start = time.process_time()
        with suppress(TimeoutError):
            expression.search(probe, timeout=GIVE_UP)
        if time.process_time() - start > SLOW:
            yield f"is slow: over {SLOW:g} s in {len(probe)} characters that begin with {probe[:30]!r}"
            return


def _raiser(rule: Rule) -> Iterator[Complaint]:
    if rule.match.on != "error" or rule.match.raised_in:
        return
    if reads_frames(rule):
        return
    kinds = [set(c.right) for c in rule.match.when if c.fact == "error.kind" and c.op in ("==", "in")]
    if not any(kind <= FRAMELESS for kind in kinds):
        yield Complaint(
            "match",
            "raised_in",
            "any script can raise an error with this text: name raised_in, or ask for an error.kind that has no frame "
            f"({', '.join(sorted(FRAMELESS))})",
        )


def reads_frames(rule: Rule) -> bool:
    """Whether it asks the frames for something else than who raised: which file was imported for which module."""
    return any(condition.fact == "error.shadows" for condition in rule.match.when)


def _conditions(rule: Rule, names: Mapping[str, FactName]) -> Iterator[Complaint]:
    groups = _groups(rule)
    for key, asked in (("when", rule.match.when), ("unless", rule.match.unless)):
        for condition in asked:
            for problem in _unknown(condition, {*names, *groups}, names):
                yield Complaint("match", key, problem, condition.text)
    for condition in rule.match.same_fault:
        for problem in _unknown(condition, groups, {}):
            yield Complaint("match", "same_fault", problem, condition.text)


def _unknown(
    condition: conditions.Condition, known: set[str] | frozenset[str], names: Mapping[str, FactName]
) -> Iterator[str]:
    if condition.fact not in known and not condition.fact.startswith(OPEN_FIELDS):
        yield f"{condition.text}: {condition.fact} is neither a declared fact nor captured"
        return
    name = names.get(condition.fact)
    if name and name.values and condition.op in ("==", "!=", "in"):
        for word in condition.right:
            if word not in name.values and word not in known:
                yield f"{condition.text}: {condition.fact} is never {word}, only {', '.join(name.values)}"


def _claim(rule: Rule, names: Mapping[str, FactName]) -> Iterator[Complaint]:
    """A claim may say what was captured, what the record has, and what the match itself spells; nothing else."""
    fields = {name for name in names if name.startswith(f"{rule.match.on}.")}
    asked = {condition.fact for condition in rule.match.when}
    groups = _groups(rule)
    always = pattern.certain_groups(rule.match.text) if rule.match.text else frozenset()
    for section, key, text in _texts(rule):
        where = "fix step" if section == "fix" else key
        for name in PLACEHOLDER.findall(text) if section in FILLED else ():
            if rule.match.on == "hazard" and name.startswith(OPEN_FIELDS):
                continue
            if name not in groups | fields | asked:
                yield Complaint(
                    section, key, f"{where}: {{{name}}} is neither captured nor a field of the record", name
                )
            elif section == "claim" and name in groups - always - asked:
                yield Complaint(
                    section,
                    key,
                    f"{where}: {{{name}}} is captured by some alternatives only; ask for `{name} is known`",
                    name,
                )
    shown = f"{rule.match.text or ''} {' '.join(c.text for c in rule.match.when)}"
    for number in NUMBER.findall(PLACEHOLDER.sub("", rule.claim.says)):
        if number not in shown:
            yield Complaint("claim", "says", f"says: claims {number}, which the match does not show", number)


def _texts(rule: Rule) -> Iterator[tuple[str, str, str]]:
    """What a reader of the finding is told: section, key, text."""
    yield "", "title", rule.title
    yield "claim", "says", rule.claim.says
    yield "claim", "look_at", rule.claim.look_at
    yield "claim", "argument", rule.claim.argument or ""
    for step in rule.fix.steps:
        yield "fix", "steps", step
    yield "why", "text", rule.why
    yield "example", "wrong", rule.wrong or ""
    yield "example", "right", rule.right or ""
    for step in rule.check_steps:
        yield "check", "steps", step


def _groups(rule: Rule) -> frozenset[str]:
    return pattern.group_names(rule.match.text) if rule.match.text else frozenset()
