"""A possible category by the words in which somebody tells of a failure: `rules/reference/symptoms.toml`. Pure.

For reports that hold no error text: "wrong results with three stages", "hangs", "twice as slow as before". What words say is
possible at most, and where they say several things, all of these are candidates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from triage.knowledge.files import read_table, taken_apart
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
#: Words before a phrase among which a negation is looked for, and characters in which these words stand as a rule.
BEFORE, NEAR = 4, 200

NEGATION = re.compile(
    r"\b(?:no|not|never|without|neither|nor|none|cannot|nothing|(?:is|are|was|were|do|does|did|has|have|ca|wo)n['’]?t)\b",
    re.IGNORECASE,
)
#: … and what takes it back: "not only slow", "no idea why".
NO_NEGATION = re.compile(r"\b(?:not (?:only|just|sure)|no (?:idea|error|matter|longer))\b", re.IGNORECASE)
#: It denies what says a fault plainly; of what only hints, such as "compiles", it says the fault.
NO_LONGER = re.compile(r"\bno longer\b", re.IGNORECASE)
#: Words of phrases that negate, as their expressions have them.
NEGATIVE = (r"not\b", r"no\b", r"never\b", r"without\b", r"nothing\b", r"n['’]t\b")
CLAUSE = re.compile(r"[.;:!?\n]+|,\s|\s[-–—]\s|\b(?:but|however|although|though|while|instead|yet)\b", re.IGNORECASE)
#: What a logger says by the way is no report: only lines of a warning's level or less, so that errors stay.
BY_THE_WAY = re.compile(r"^.*(?:\[W\d|\b(?:Warning|WARNING|INFO|DEBUG|info|debug|warning)[\]:]).*$", re.MULTILINE)
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
    """The table, loaded once."""

    def __init__(self, entries: Iterable[_Entry]) -> None:
        self._entries = tuple(entries)

    @classmethod
    def load(cls, root: Path) -> Symptoms:
        """The table below a rules folder. Raises `FileError`."""
        data = read_table(root / FILE)
        with taken_apart(root / FILE):
            return cls(_entry(entry, number) for number, entry in enumerate(data["symptom"], 1))

    def of(self, text: str) -> tuple[Symptom, ...]:
        """The categories that a text hints at, the likeliest first; several where its words say several things."""
        clauses = dict.fromkeys(clause for clause in CLAUSE.split(_told(text[:LIMIT])) if clause.strip())
        told = [mark for clause in clauses for mark in _standing(list(self._marks(clause)))]
        best: dict[Category, Symptom] = {}
        scores: dict[Category, int] = {}
        covered: set[Category] = set()
        plainly: set[Category] = set()
        for entry in self._entries:
            plain = _wordings(mark for mark in told if mark.entry is entry and mark.plain)
            hints = _wordings(mark for mark in told if mark.entry is entry and not mark.plain)
            hints = [hint for hint in hints if not any(hint in phrase for phrase in plain)]
            score = PLAIN * len(plain) + HINT * len(hints)
            if not score:
                continue
            scores[entry.category] = scores.get(entry.category, 0) + score
            if plain:
                covered |= set(entry.over)
                plainly.add(entry.category)
            known = best.get(entry.category)
            if known is None or score > known.score:
                best[entry.category] = Symptom(entry.category, entry.says, entry.next, (*plain, *hints), score)
        chosen = _candidates(scores, covered, plainly)
        return tuple(best[category] for category in chosen)

    def _marks(self, clause: str) -> Iterator[_Mark]:
        for entry in self._entries:
            for plain, patterns in ((True, entry.plain), (False, entry.hints)):
                for match in (match for pattern in patterns for match in pattern.finditer(clause)):
                    if not _denied(clause, match, plain):
                        yield _Mark(entry, plain, match.start(), match.end(), " ".join(match[0].split()))


@dataclass(frozen=True)
class _Mark:
    """A phrase of an entry where a clause has it."""

    entry: _Entry
    plain: bool
    start: int
    stop: int
    words: str

    def holds(self, other: _Mark) -> bool:
        """Whether it is longer, about another category, and has all of the other's words."""
        longer = self.stop - self.start > other.stop - other.start
        inside = self.start <= other.start and other.stop <= self.stop
        return longer and inside and self.entry.category is not other.entry.category


def _standing(marks: Sequence[_Mark]) -> list[_Mark]:
    """The marks in their order, without those that a longer one accounts for.

    Of one entry's that overlap the longest one counts, and a plain phrase of another category takes the words it holds: a header
    that does "not match the installed compiler" is no value that does "not match".
    """
    found: list[_Mark] = []
    ends: dict[tuple[int, bool], int] = {}
    plain: list[_Mark] = []
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.stop)):
        plain = [longer for longer in plain if longer.stop > mark.start]
        held = any(longer.holds(mark) for longer in plain)
        if mark.plain:
            plain.append(mark)
        place = (id(mark.entry), mark.plain)
        if mark.start >= ends.get(place, -1):
            ends[place] = mark.stop
            if not held:
                found.append(mark)
    return found


def _told(text: str) -> str:
    """The text without what is no word and what loggers say by the way, unless that is all there is."""
    words = NO_WORD.sub(" ", text)
    told = BY_THE_WAY.sub("", words)
    return told if told.strip() else words


def _wordings(marks: Iterable[_Mark]) -> list[str]:
    return list(dict.fromkeys(mark.words for mark in marks))


def _candidates(scores: dict[Category, int], covered: set[Category], plainly: set[Category]) -> list[Category]:
    """The categories with the most words. What is only hinted at is none beside what is said plainly."""
    open_ = {category: score for category, score in scores.items() if category not in covered} or scores
    open_ = {category: score for category, score in open_.items() if category in plainly} or open_
    most = max(open_.values(), default=0)
    chosen = [category for category, score in open_.items() if score >= CANDIDATE * most]
    return sorted(chosen, key=lambda category: (-open_[category], list(Category).index(category)))


def _denied(clause: str, match: re.Match[str], plain: bool) -> bool:
    """Whether a negation stands shortly before a phrase that does not begin with one, or within one that has none."""
    if NEGATION.match(match[0]):
        return False
    before = WORD.findall(clause[max(match.start() - NEAR, 0) : match.start()])
    if len(before) <= BEFORE and match.start() > NEAR:  # else the first word, which may be cut, is none of the last
        before = WORD.findall(clause[: match.start()])
    near = " ".join(before[-BEFORE:])
    if plain and NO_LONGER.search(near):
        return True
    if NEGATION.search(NO_NEGATION.sub("", near)):
        return True
    return not _negates(match.re.pattern) and NEGATION.search(NO_NEGATION.sub("", match[0])) is not None


@lru_cache(maxsize=2048)
def _negates(phrase: str) -> bool:
    """Whether the expression of a phrase asks for a negation itself."""
    return any(word in phrase for word in NEGATIVE)


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
    ending = r"[\w-]*" if word.endswith("*") else r"\b" if word[-1].isalnum() else ""
    begin = "" if word in ("x", "ms", "us") else r"(?<![\w-])"  # these stand close behind a number, too
    return begin + re.escape(word.removesuffix("*")) + ending
