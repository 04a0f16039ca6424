"""Which rules nearly fit a text, and what they lack. Pure.

Texts drift between versions: an operator gets another name, a word a synonym, the order of a sentence changes. So nearness
is measured by the words that an expression demands, each weighed by how few rules use it, within the few lines that hold
most of them. Words count by their stem, also where the text has them inside a longer name (`CheckFailed`, `gemm_v3`), and,
for less, by a synonym or a common beginning.
"""

from __future__ import annotations

import math
import re._constants as op  # type: ignore[import-not-found]
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import regex

from triage.knowledge.match import SEARCH_TIMEOUT, compiled
from triage.knowledge.pattern import tree
from triage.knowledge.rule import Rule

#: A near miss has at least this share of the weight of the words that the rule demands, …
NEAR = 0.42
#: … and at least so many different words, so that one rare word alone makes none.
NEAR_WORDS = 2
#: … that weigh this much: "check failed", which any error may say, is near nothing.
TELLING = 4.0
#: Weight that an expression of any length lacks: with few words, the same share says less.
DOUBT = 2.5
#: Lines that one message may take up where logs are wrapped.
WINDOW = 3
#: What is left of a share where the words are there but scattered; and how far apart two words still follow each other.
LOOSE, APART = 0.7, 3
#: Near misses that are shown.
MOST = 5
#: Lines and characters of a text that are looked at, from both ends; a message has a dozen.
LINES, CHARACTERS = 400, 2_000
#: A hash, a path or a number of so many letters is no word; so many at its ends are kept. Characters of a line that are read for it.
NO_WORD, WORD_ENDS, LINE_LIMIT = regex.compile(r"\S{100,}"), 30, 200_000

#: How much a word counts that is there as it is, as a synonym, or with the same beginning.
EXACT, SYNONYM, BEGINNING = 1.0, 0.75, 0.6
#: A word counts as one that is there from this on.
COUNTED = 0.5
#: Letters that two words must begin with to be of one family where their stems differ.
BEGINNING_LETTERS = 5
#: English words that hold a sentence together, and numbers and single letters: there by chance.
SMALL = """
    a an the is are was be been being of in on at to for from by with and or not no as it its that this than then
    must should can cannot could may might will would have has had do does did but if when which only all any one
    you your we our there here where so such
"""
SMALL_WEIGHT = 0.25
#: Words that stand in errors of every kind.
COMMON = "check failed failure error exception internal assertion assert runtime warning fatal value type"
COMMON_WEIGHT = 0.5

#: Words that texts of compilers use for each other.
SYNONYMS = (
    "shape dimension dim extent size length",
    "must should need require expect want",
    "fail error violate reject refuse",
    "get got receive found given see saw",
    "unsupport invalid illegal unexpect bad wrong",
    "argument arg parameter param operand input",
    "buffer tensor array tile",
    "dtype type datatype",
    "differ mismatch disagree inconsistent unequal conflict",
    "missing absent undefined undeclare unknown",
    "available exist present usable",
    "find found locate see seen",
    "initialize write assign set define",
    "read use access load",
    "loop for range iteration",
    "warp wavefront subgroup",
    "infer deduce derive determine",
    "divide multiple divisible",
    "module package library",
    "device gpu card accelerator",
    "copy move transfer",
    "inside within nested",
    "rank ndim dimensionality",
    "equal same match identical",
    "allow permit legal valid",
    "variable name identifier symbol",
    "call invoke launch",
    "index indices subscript",
    "exceed over above beyond larger greater",
)

WORD = regex.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
#: What is no text in a regular expression: escapes, classes, names of groups, flags.
NO_TEXT = regex.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P?<\w+>|\(\?[a-zA-Z]+[:)]")
_ENDINGS = (
    "ations", "ation", "izing", "ities", "ments", "ables", "ings", "ions", "edly", "able", "ible", "ment", "ance", "ence",
    "ing", "ion", "ies", "ied", "ity", "ive", "ed", "es", "ly", "al", "s", "e",
)  # fmt: skip


@dataclass(frozen=True)
class Gap:
    """A fragment that the rule expects and the text has not; `instead` is what the text has in its place, if it is like it."""

    expected: str
    instead: str | None = None

    def __str__(self) -> str:
        if self.instead is None:
            return f"`{self.expected}` is missing"
        return f"expected `{self.expected}`, the text has `{self.instead}`"


@dataclass(frozen=True)
class NearMiss:
    """A rule whose text does not fit: the share of demanded words that are there, and the fragments that are not.

    `line` counts from 1; `present` are the rule's words that the lines from there on have, in the rule's order. Where
    nothing is `missing`, `differs` says why the text does not fit all the same.
    """

    rule: Rule
    share: float
    line: int
    present: tuple[str, ...]
    missing: tuple[Gap, ...]
    differs: str | None = None


@dataclass(frozen=True)
class Token:
    """A part of a word: its stem, and where it stands in its line."""

    key: str
    start: int
    end: int


#: What an expression demands in order: literal text, `GAP` where it takes any text, or a choice of such sequences.
Sequenced = list[Any]
GAP = None


@dataclass(frozen=True)
class _Choice:
    branches: tuple[Sequenced, ...]


@dataclass(frozen=True)
class _Demand:
    """The weights of the words that a sequence demands, and the demands among which it has a choice each."""

    weights: tuple[tuple[str, float], ...]
    total: float
    choices: tuple[tuple[_Demand, ...], ...]

    def weigh(self, there: Mapping[str, float]) -> tuple[float, float]:
        """The weight of what is there, and of all, where each choice is made for the best."""
        have, total = 0.0, self.total
        for key, weight in self.weights:
            if key in there:
                have += weight * there[key]
        for branches in self.choices:
            best = max((branch.weigh(there) for branch in branches), key=_worth)
            have, total = have + best[0], total + best[1]
        return have, total

    def share(self, there: Mapping[str, float]) -> float:
        have, total = self.weigh(there)
        return have / (total + DOUBT)

    def substance(self) -> frozenset[str]:
        """The heavier three quarters of all its words: where a line has none of them, no message of the rule begins."""
        weights = dict(self._all())
        least = sorted(weights.values())[len(weights) // 4] if weights else 0.0
        return frozenset(key for key, weight in weights.items() if weight >= least)

    def _all(self) -> Iterator[tuple[str, float]]:
        yield from self.weights
        for branches in self.choices:
            for branch in branches:
                yield from branch._all()

    def worth(self, there: Mapping[str, float]) -> tuple[float, float]:
        return _worth(self.weigh(there))


def _worth(weighed: tuple[float, float]) -> tuple[float, float]:
    """How good a branch is: what it has, less what it lacks; then what it has."""
    have, total = weighed
    return 2 * have - total, have


def _demand(sequence: Sequenced, weights: Mapping[str, float]) -> _Demand:
    own = dict.fromkeys(key for part in sequence if isinstance(part, str) for key in _keys(part))
    choices = (part.branches for part in sequence if isinstance(part, _Choice))
    return _Demand(
        tuple((key, weights[key]) for key in own),
        sum(weights[key] for key in own),
        tuple(tuple(_demand(branch, weights) for branch in branches) for branches in choices),
    )


class _Weights(dict[str, float]):
    """The weight of each stem; one that only the syntax tree shows, and not the expression as it is written, is rare."""

    rarest = 0.0

    def __missing__(self, key: str) -> float:
        return self.rarest * _substance(key)


class NearRules:
    """The demanded words of a set of rules, ready to be compared with texts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [(rule, _words_of_source(rule.match.text)) for rule in rules if rule.match.text]
        using = Counter(key for _, keys in self._rules for key in keys)
        count = len(self._rules)
        self._weights = _Weights({key: math.log(1 + count / users) * _substance(key) for key, users in using.items()})
        self._weights.rarest = math.log(1 + count)
        self._beginnings: dict[str, set[str]] = defaultdict(set)
        for key in using:
            if len(key) >= BEGINNING_LETTERS:
                self._beginnings[key[:BEGINNING_LETTERS]].add(key)
        self._found: dict[str, dict[str, float]] = {}
        self._read: dict[str, tuple[Sequenced, _Demand]] = {}

    def nearest(self, text: str, fitting: Iterable[str] = (), most: int = MOST) -> list[NearMiss]:
        """The nearest rules to `text`, best first, without those whose codes are `fitting`."""
        lines = _bounded(text)
        there = [self._demanded_in(tokens) for _, _, tokens in lines]
        windows = [_merged(there[at : at + WINDOW]) for at in range(len(there))]
        everywhere = _merged(there)
        skipped = set(fitting)
        found = []
        for rule, keys in self._rules:
            if rule.code in skipped or sum(self._weights[key] for key in keys if key in everywhere) < TELLING:
                continue
            sequence, demand = self._demanded_by(rule)
            if demand.share(everywhere) < NEAR:
                continue
            words = demand.substance()
            tried = (at for at, line in enumerate(there) if not words.isdisjoint(line))
            share, before = max(((demand.share(windows[at]), -at) for at in tried), default=(0.0, 0))
            if share < NEAR:
                continue
            chosen = self._chosen(sequence, windows[-before])
            told = [token.key for _, _, tokens in lines[-before : WINDOW - before] for token in tokens]
            share *= self._connection(chosen, told)
            if share >= NEAR and self._tells(chosen, windows[-before]):
                found.append((share, -before, rule, chosen))
        found.sort(key=lambda one: (-round(one[0], 6), one[2].code))
        return [self._miss(*one, lines[one[1] : one[1] + WINDOW]) for one in found[:most]]

    def _demanded_by(self, rule: Rule) -> tuple[Sequenced, _Demand]:
        """What a rule's expression demands; read when it is first asked for, because that costs more than all the rest."""
        if rule.code not in self._read:
            sequence = _sequence(rule.match.text or "")
            self._read[rule.code] = sequence, _demand(sequence, self._weights)
        return self._read[rule.code]

    def _demanded_in(self, tokens: Sequence[Token]) -> Mapping[str, float]:
        """The stems that some rule demands and these words stand for, each with how well."""
        return _merged([self._stands_for(key) for key in {token.key for token in tokens}])

    def _stands_for(self, key: str) -> Mapping[str, float]:
        if key not in self._found:
            found = {
                other: SYNONYM * _telling(key, other) for other in _synonyms().get(key, ()) if other in self._weights
            }
            if len(key) >= BEGINNING_LETTERS:
                for other in self._beginnings.get(key[:BEGINNING_LETTERS], ()):
                    found.setdefault(other, BEGINNING)
            if key in self._weights:
                found[key] = EXACT
            self._found[key] = found
        return self._found[key]

    def _chosen(self, sequence: Sequenced, there: Mapping[str, float]) -> Sequenced:
        """The demanded text where each choice is made for the best."""
        flat: Sequenced = []
        for part in sequence:
            if isinstance(part, _Choice):
                best = max(part.branches, key=lambda branch: _demand(branch, self._weights).worth(there))
                flat += self._chosen(best, there)
            else:
                flat.append(part)
        return flat

    def _tells(self, chosen: Sequenced, there: Mapping[str, float]) -> bool:
        """Whether the words that are there are more than what any error says."""
        present = {key for key in _all_keys(chosen) if there.get(key, 0.0) >= COUNTED}
        return len(present) >= NEAR_WORDS and sum(self._weights[key] for key in present) >= TELLING

    def _connection(self, chosen: Sequenced, words: Sequence[str]) -> float:
        """From `LOOSE`, where no two words that follow each other in a fragment do so in the text, to 1 where all do."""
        wanted = dict.fromkeys(_all_keys(chosen))
        stands = [wanted.keys() & self._stands_for(word).keys() for word in words]
        follow = {
            (key, other)
            for at, keys in enumerate(stands)
            for key in keys
            for others in stands[at + 1 : at + 1 + APART]
            for other in others
        }
        runs = (
            [key for part in run for key in _keys(part)] for gap, run in groupby(chosen, lambda p: p is GAP) if not gap
        )
        pairs = {pair for run in runs for pair in pairwise(run) if pair[0] != pair[1]}
        weights = {pair: self._weights[pair[0]] + self._weights[pair[1]] for pair in pairs}
        if not weights:
            return 1.0
        return LOOSE + (1 - LOOSE) * sum(w for pair, w in weights.items() if pair in follow) / sum(weights.values())

    def _miss(
        self, share: float, at: int, rule: Rule, chosen: Sequenced, window: Sequence[tuple[int, str, list[Token]]]
    ) -> NearMiss:
        there = [self._demanded_in(tokens) for _, _, tokens in window]
        keys = list(dict.fromkeys(_all_keys(chosen)))
        present = tuple(key for key in keys if any(key in line for line in there))
        shown = [line for line, demanded in zip(window, there, strict=True) if any(key in demanded for key in keys)]
        folded = " ".join(_folded(line) for _, line, _ in shown)
        fragments = _fragments(chosen)
        gaps = tuple(
            Gap(fragment, self._instead(fragment, shown, [_folded(other) for other in fragments if other != fragment]))
            for fragment in fragments
            if _folded(fragment) not in folded
        )
        differs = None if gaps else _difference(rule, fragments, [line for _, line, _ in shown])
        return NearMiss(rule, share, shown[0][0], present, gaps, differs)

    def _instead(
        self, fragment: str, window: Sequence[tuple[int, str, list[Token]]], others: Sequence[str]
    ) -> str | None:
        """The part of one line that has the most of a fragment's words, if it has half of them and is no part of another."""
        wanted = [token.key for token in tokens_of(fragment)]
        best: tuple[float, int, str] = (0.0, 0, "")
        for _, line, tokens in window:
            keys = [next((w for w in wanted if w in self._stands_for(t.key)), t.key) for t in tokens]
            blocks = [b for b in SequenceMatcher(None, wanted, keys, autojunk=False).get_matching_blocks() if b.size]
            if not blocks:
                continue
            first, last = blocks[0], blocks[-1]
            start = max(0, first.b - (first.a > 0))
            end = min(len(tokens), last.b + last.size + (last.a + last.size < len(wanted)))
            share = sum(block.size for block in blocks) / len(wanted)
            if share >= NEAR and end - start <= 2 * len(wanted) + 2:
                part = line[tokens[start].start : tokens[end - 1].end]
                if not any(_folded(part) in other for other in others):
                    best = max(best, (share, -len(part), part))
        return " ".join(best[2].split()) or None


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def _difference(rule: Rule, fragments: Sequence[str], lines: Sequence[str]) -> str:
    """How lines that have all fragments differ from what the expression asks."""
    text = "\n".join(lines).rstrip()
    folded = _folded(text)
    at = -1
    for fragment in fragments:
        at = folded.find(_folded(fragment), at + 1)
        if at < 0:
            return "all its words are there, in another order"
    first = text.lower().find(fragments[0].lower().split()[0]) if fragments else -1
    broken = compiled(rule.match.text or "").search(text, partial=True, timeout=SEARCH_TIMEOUT)
    if broken is not None and broken.partial and broken.start() <= first:
        return f"the text breaks off behind `{fragments[-1]}`"
    return "all its words are there in order, but not what it expects between or behind them"


def _words_of_source(pattern: str) -> frozenset[str]:
    """The stems in an expression as it is written: about those it demands, for a small part of the cost."""
    return frozenset(token.key for token in tokens_of(NO_TEXT.sub(" ", pattern)))


def _sequence(pattern: str) -> Sequenced:
    """What the expression demands. Raises `PatternError`."""
    return _walk(tree(pattern))


def _walk(nodes: Any) -> Sequenced:
    found: Sequenced = []
    for kind, value in nodes:
        if kind is op.LITERAL:
            found.append(chr(value))
        elif kind is op.SUBPATTERN:
            found += _walk(value[-1])
        elif kind is op.ATOMIC_GROUP:
            found += _walk(value)
        elif kind is op.BRANCH:
            begun = _cut_word(found)
            found.append(_Choice(tuple(_joined([*begun, *_walk(branch)]) for branch in value[1])))
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, body = value
            found += _walk(body) if least >= 1 else []
            found += [GAP] if most != least or least > 1 else []
        elif kind is not op.AT:  # anchors take no text; sets, any, references and assertions end a fragment
            found.append(GAP)
    return _joined(found)


def _cut_word(parts: Sequenced) -> Sequenced:
    """Take the letters off the end that begin the first word of a choice: the parser draws them out of `(serial|select)`."""
    end = len(parts)
    while end and isinstance(parts[end - 1], str) and parts[end - 1].isalnum():
        end -= 1
    begun = parts[end:]
    del parts[end:]
    return begun


def _joined(parts: Sequenced) -> Sequenced:
    """With letters that follow each other as one text."""
    joined: Sequenced = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def _fragments(chosen: Sequenced) -> list[str]:
    """The texts between the gaps that have words."""
    pieces = [part.strip() for part in _joined(chosen) if isinstance(part, str)]
    return [piece for piece in pieces if tokens_of(piece)]


def _all_keys(sequence: Sequenced) -> Iterator[str]:
    for part in sequence:
        if isinstance(part, _Choice):
            for branch in part.branches:
                yield from _all_keys(branch)
        elif part is not GAP:
            yield from _keys(part)


@lru_cache(maxsize=8_192)
def _keys(text: str) -> tuple[str, ...]:
    return tuple(token.key for token in tokens_of(text))


def _merged(maps: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The best quality of every stem."""
    best: dict[str, float] = {}
    for one in maps:
        for key, quality in one.items():
            if quality > best.get(key, 0.0):
                best[key] = quality
    return best


def _bounded(text: str) -> list[tuple[int, str, list[Token]]]:
    """Number, text and words of the lines that have any, of a long text those at both ends."""
    lines = [(number, _shortened(line)) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > LINES:
        lines = lines[: LINES // 2] + lines[-LINES // 2 :]
    return [(number, line, tokens) for number, line in lines if (tokens := tokens_of(line))]


def _shortened(line: str) -> str:
    """A line without the middle of what is too long for a word, and of bounded length."""
    shortened: str = NO_WORD.sub(lambda found: f"{found[0][:WORD_ENDS]}…{found[0][-WORD_ENDS:]}", line[:LINE_LIMIT])
    return shortened[:CHARACTERS]


def tokens_of(text: str) -> list[Token]:
    """The words of a text, names cut into their parts: `T.gemm_v3` gives t, gemm, v, 3."""
    return [Token(stem(found[0].lower()), *found.span()) for found in WORD.finditer(text)]


def _substance(key: str) -> float:
    """How much a word tells by what kind of word it is."""
    if key in _stems(SMALL) or len(key) == 1 or key.isdecimal():
        return SMALL_WEIGHT
    return COMMON_WEIGHT if key in _stems(COMMON) else 1.0


def _telling(key: str, other: str) -> float:
    """How much of a word its synonym says: `error`, which any text has, says little of `refused`."""
    return min(1.0, _substance(key) / _substance(other))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A word without its ending; not the linguist's stem, but the same for `infer`, `inferred` and `inference`."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


@lru_cache(maxsize=2)
def _stems(words: str) -> frozenset[str]:
    return frozenset(map(stem, words.split()))


@lru_cache(maxsize=1)
def _synonyms() -> Mapping[str, frozenset[str]]:
    others: dict[str, set[str]] = defaultdict(set)
    for group in SYNONYMS:
        stems = {stem(word) for word in group.split()}
        for key in stems:
            others[key] |= stems - {key}
    return {key: frozenset(group) for key, group in others.items()}
