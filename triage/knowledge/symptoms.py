"""A possible category by the words in which somebody tells of a failure: `rules/reference/symptoms.toml`. Pure.

For reports that hold no error text: "wrong results with three stages", "hangs", "twice as slow as before". What words say is
possible at most, and where they say several things, all of these are candidates.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.model import Category

FILE = "reference/symptoms.toml"
KEYS = frozenset({"category", "over", "says", "next", "phrases", "weak"})
#: What a plain phrase and a hint count.
PLAIN, HINT = 3, 1
#: Categories that have less than this share of the best one's words are no candidates.
CANDIDATE = 0.6
#: Characters of a text that are read: whoever tells of a failure does it in a few sentences.
LIMIT = 20_000
#: Further words that may stand between those of a phrase.
BETWEEN = 3
#: Words before a phrase among which a negation is looked for.
BEFORE = 4

NEGATION = re.compile(
    r"\b(?:no|not|never|without|neither|nor|none|cannot|nothing|(?:is|are|was|were|do|does|did|has|have|ca|wo)n['’]?t)\b",
    re.IGNORECASE,
)
#: … and what takes it back: "not only slow", "no idea why".
NO_NEGATION = re.compile(r"\b(?:not (?:only|just|sure)|no (?:idea|error|matter|longer))\b", re.IGNORECASE)
CLAUSE = re.compile(r"[.;:!?\n]+|,\s|\s[-–—]\s|\b(?:but|however|although|though|while|instead|yet)\b", re.IGNORECASE)
#: What is longer is a hash, a path or an encoded file, and phrases would be sought at each of its letters.
NO_WORD = re.compile(r"\S{60,}")
WORD = re.compile(r"[\w'’.+/%×-]*\w[\w'’+/%×-]*|[%×]")


@dataclass(frozen=True)
class Symptom:
    """What the words of a text hint at. `phrases` are these words as the text has them; `score` compares symptoms."""

    category: Category
    says: str
    next: str
    phrases: tuple[str, ...]
    score: int


@dataclass(frozen=True)
class _Entry:
    category: Category
    over: tuple[Category, ...]
    says: str
    next: str
    plain: tuple[re.Pattern[str], ...]
    hints: tuple[re.Pattern[str], ...]


class Symptoms:
    """The table, loaded once. Raises `ValueError` from `load` for an entry that is none."""

    def __init__(self, entries: Iterable[_Entry]) -> None:
        self._entries = tuple(entries)

    @classmethod
    def load(cls, root: Path) -> Symptoms:
        """The table below a rules folder."""
        with open(root / FILE, "rb") as file:
            data = tomllib.load(file)
        return cls(_entry(entry, number) for number, entry in enumerate(data["symptom"], 1))

    def of(self, text: str) -> tuple[Symptom, ...]:
        """The categories that a text hints at, the likeliest first; several where its words say several things."""
        clauses = [clause for clause in CLAUSE.split(NO_WORD.sub(" ", text[:LIMIT])) if clause.strip()]
        best: dict[Category, Symptom] = {}
        scores: dict[Category, int] = {}
        covered: set[Category] = set()
        for entry in self._entries:
            plain, hints = _found(entry.plain, clauses), _found(entry.hints, clauses)
            hints = [hint for hint in hints if not any(hint in phrase for phrase in plain)]
            score = PLAIN * len(plain) + HINT * len(hints)
            if not score:
                continue
            scores[entry.category] = scores.get(entry.category, 0) + score
            if plain:
                covered |= set(entry.over)
            known = best.get(entry.category)
            if known is None or score > known.score:
                best[entry.category] = Symptom(entry.category, entry.says, entry.next, (*plain, *hints), score)
        return _candidates(best, scores, covered)


def _candidates(
    best: dict[Category, Symptom], scores: dict[Category, int], covered: set[Category]
) -> tuple[Symptom, ...]:
    open_ = {category: score for category, score in scores.items() if category not in covered} or scores
    most = max(open_.values(), default=0)
    chosen = [category for category, score in open_.items() if score >= CANDIDATE * most]
    chosen.sort(key=lambda category: (-open_[category], list(Category).index(category)))
    return tuple(best[category] for category in chosen)


def _found(patterns: Sequence[re.Pattern[str]], clauses: Sequence[str]) -> list[str]:
    """The phrases that the clauses have and do not deny, each wording once, the longest of those that overlap."""
    found: list[str] = []
    for clause in clauses:
        spans = [
            match.span()
            for pattern in patterns
            for match in pattern.finditer(clause)
            if not _denied(clause, match.start(), match.end())
        ]
        spans.sort(key=lambda span: (span[0], -span[1]))
        end = -1
        for start, stop in spans:
            if start >= end:
                found.append(" ".join(clause[start:stop].split()))
                end = stop
    return list(dict.fromkeys(found))


def _denied(clause: str, start: int, end: int) -> bool:
    """Whether a negation stands shortly before a phrase that does not begin with one."""
    if NEGATION.match(clause[start:end]):
        return False
    before = WORD.findall(clause[:start])[-BEFORE:]
    near = " ".join(before)
    return NEGATION.search(NO_NEGATION.sub("", near)) is not None


def _entry(entry: dict[str, object], number: int) -> _Entry:
    unknown = entry.keys() - KEYS
    if unknown or not KEYS - {"over", "weak"} <= entry.keys():
        raise ValueError(f"{FILE}: symptom {number}: unknown or missing keys: {sorted(unknown or KEYS - entry.keys())}")
    over, phrases, weak = entry.get("over", []), entry["phrases"], entry.get("weak", [])
    if not isinstance(over, list) or not isinstance(phrases, list) or not isinstance(weak, list):
        raise ValueError(f"{FILE}: symptom {number}: over, phrases and weak are lists")
    return _Entry(
        Category(str(entry["category"])),
        tuple(Category(str(name)) for name in over),
        str(entry["says"]),
        str(entry["next"]),
        tuple(_phrase(str(phrase)) for phrase in phrases),
        tuple(_phrase(str(phrase)) for phrase in weak),
    )


def _phrase(phrase: str) -> re.Pattern[str]:
    """The expression of a phrase; see the head of the table for what a phrase is."""
    words = ["(?:" + "|".join(map(_word, choice.split("|"))) + ")" for choice in phrase.split(" ")]
    between = rf"(?:[\s,'\"`(]+[\w'’.+/%-]+){{0,{BETWEEN}}}?[\s,'\"`(]*"
    return re.compile(between.join(words), re.IGNORECASE)


def _word(word: str) -> str:
    if word == "N":
        return r"(?<![\w.])\d+(?:\.\d+)?(?:k|m)?"
    if word == "n't":
        return r"\w+n['’]t\b"
    if word == "%":
        return "%"
    ending = r"[\w-]*" if word.endswith("*") else r"\b"
    begin = "" if word in ("x", "ms", "us") else r"(?<![\w-])"  # these stand close behind a number, too
    return begin + re.escape(word.removesuffix("*")) + ending
