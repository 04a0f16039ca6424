"""The condition language of the graph and of the rules: `FACT OP LITERAL|FACT`, `FACT in a b c`, `FACT is known|unknown`.

There is nothing else: a list of conditions means AND, several branches mean OR. A condition on an absent fact does
not hold, whatever its operator, except `is unknown`. A condition explains itself with the values it saw.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

QUOTING = re.compile(r"""['"\\]""")


class ConditionError(ValueError):
    """The text is not a condition; the message says what is wrong with it."""


@dataclass(frozen=True)
class Condition:
    """One parsed condition. `right` holds the literals of `in`, or one literal or fact name for an operator."""

    text: str
    fact: str
    op: str  # an OPERATORS key, "in", "known" or "unknown"
    right: tuple[str, ...] = ()

    def facts(self, names: Mapping[str, Any]) -> tuple[str, ...]:
        """The declared fact names this condition reads; `names` is what tells a fact from a literal."""
        return (self.fact, *(r for r in self.right if self.op in OPERATORS and r in names))


@dataclass(frozen=True)
class Holding:
    """The result of asking a condition: whether it holds, and the observed values as text."""

    holds: bool
    why: str


def parse(text: str) -> Condition:
    """Parse one condition. Raises `ConditionError`."""
    try:
        words = shlex.split(text) if QUOTING.search(text) else text.split()  # as most are, and much faster
    except ValueError as error:
        raise ConditionError(f"{text!r}: {error}") from None
    if len(words) < 3:
        raise ConditionError(f"{text!r}: expected FACT OP VALUE, FACT in A B…, or FACT is known|unknown")
    fact, op, *right = words
    if op == "is":
        if right not in (["known"], ["unknown"]):
            if len(right) == 1:  # "finding.state is unknown" asks for absence; a value wants "=="
                raise ConditionError(f"{text!r}: after `is` only known or unknown; write `{fact} == {right[0]}`")
            raise ConditionError(f"{text!r}: after `is` only known or unknown")
        return Condition(text, fact, right[0])
    if op == "in":
        return Condition(text, fact, "in", tuple(right))
    if op not in OPERATORS:
        raise ConditionError(f"{text!r}: unknown operator {op!r}; known: {' '.join(OPERATORS)} in is")
    if len(right) != 1:
        raise ConditionError(f"{text!r}: {op} takes one value; quote a value that has spaces")
    return Condition(text, fact, op, tuple(right))


def literal(word: str) -> Any:
    """The value a word stands for: true, false, an integer, a float, else the word itself."""
    if word in ("true", "false"):
        return word == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def holds(condition: Condition, facts: Mapping[str, Any]) -> Holding:
    """Ask one condition of a mapping from fact names to values (None counts as absent)."""
    value = facts.get(condition.fact)
    if condition.op in ("known", "unknown"):
        known = value is not None
        return Holding(known == (condition.op == "known"), f"{condition.fact} is {'known' if known else 'unknown'}")
    if value is None:
        return Holding(False, f"{condition.fact} is absent")
    seen = f"{condition.fact} = {show(value)}"
    if condition.op == "in":
        return Holding(any(_same(value, literal(word)) for word in condition.right), seen)
    word = condition.right[0]
    other = facts[word] if word in facts else literal(word)
    if other is None:
        return Holding(False, f"{word} is absent")
    if word in facts:
        seen += f", {word} = {show(other)}"
    return Holding(_compare(condition.op, value, other), seen)


def all_hold(conditions: tuple[Condition, ...], facts: Mapping[str, Any]) -> Holding:
    """AND over a list; the reason names every condition of a list that holds, or the first that does not."""
    reasons = []
    for condition in conditions:
        result = holds(condition, facts)
        if not result.holds:
            return Holding(False, f"{condition.text}: {result.why}")
        reasons.append(result.why)
    return Holding(True, "; ".join(reasons))


def show(value: Any) -> str:
    """A value on one short line."""
    text = "true" if value is True else "false" if value is False else str(value)
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:79] + "…"


def _same(value: Any, other: Any) -> bool:
    return bool(value == other or str(value) == str(other))


def _compare(op: str, value: Any, other: Any) -> bool:
    if op in ("==", "!="):
        return _same(value, other) == (op == "==")
    try:
        return OPERATORS[op](value, other)
    except TypeError:
        return False  # a number against a word has no order, so the condition does not hold
