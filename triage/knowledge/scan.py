"""All rules over a text in one pass. Pure.

Every match of a rule holds one of a few fixed texts (`pattern.anchors`). One automaton finds those of all rules at once, and
only where one stands is the rule's own expression tried: on that line or, if it can match across lines, on the lines
around it. So a text that no rule is about costs what the automaton costs, however many rules there are.

A text is read in blocks, each with a little of what follows, so memory does not grow with the text. What `scan` finds is what
`finditer` of every rule finds, but for matches that reach further than `SPAN`: those may be cut or missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from triage.knowledge.match import SEARCH_TIMEOUT, compiled, ends
from triage.knowledge.profiles import profile
from triage.knowledge.rule import Rule
from triage.knowledge.words import Find, finder

#: Bytes that are looked at at a time: far more than the work around a block costs, and still in the processor's cache.
BLOCK = 1 << 18
#: Bytes that a match may reach to either side of its fixed text. The longest message of a shipped rule takes under 1 KiB.
SPAN = 1 << 12

Source = str | bytes | Iterable[str] | Iterable[bytes]


class Hit(NamedTuple):
    """A match: offsets in the source, in characters if it is text and in bytes if it is bytes; `line` counts from 1."""

    rule: Rule
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class _Block:
    """A piece of the source. Matches that begin in `data[own:stop]` are its own; the rest is there to see around them."""

    data: bytes
    own: int
    stop: int
    base: int
    """Offset of `data[0]` in the source, in bytes."""


class _Place(NamedTuple):
    """A match of the rule of a number, in bytes of its block."""

    start: int
    rule: int
    end: int


class Scanner:
    """Finds the matches of all rules that have a `text`; the others are left out."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.match.text)
        profiles = [profile(rule.match.text or "") for rule in self._rules]
        self._crossing = [one.crosses_lines for one in profiles]
        owners: dict[bytes, list[int]] = defaultdict(list)
        anchorless = []
        for number, one in enumerate(profiles):
            for word in one.anchors:
                owners[word.encode("utf-8", "surrogatepass")].append(number)
            if not one.anchors:
                anchorless.append(number)
        self._owners = list(owners.values())
        self._anchorless = tuple(anchorless)
        self._words = list(owners)

    def possible(self, text: str) -> frozenset[str]:
        """The codes of the rules that may match a record's text; every other rule's `match.search` finds nothing in it."""
        words = {word for word, _, _ in self._glance(ends(text).encode("utf-8", "surrogatepass"))}
        numbers = {number for word in words for number in self._owners[word]}
        return frozenset(self._rules[number].code for number in numbers.union(self._anchorless))

    @cached_property
    def _glance(self) -> Find:
        """For a few short texts: at once there, at half the speed."""
        return finder(self._words, "ContiguousNFA")

    @cached_property
    def _find(self) -> Find:
        """For long ones: takes longer to make than to search a megabyte."""
        return finder(self._words, "DFA")

    def scan(self, source: Source, block: int = BLOCK) -> Iterator[Hit]:
        """Every match in the order of the starts; those of one rule do not overlap. `source` may come in any pieces.

        A rule whose search takes over `SEARCH_TIMEOUT` seconds is left out of the lines where it does.
        """
        pieces = iter((source,) if isinstance(source, str | bytes) else source)
        first = next(pieces, b"")
        as_text = isinstance(first, str)
        ended: dict[int, int] = {}
        line, offset = 1, 0
        for piece in _blocks(chain((first,), pieces), block):
            at = piece.own
            for place in sorted(self._places(piece, "surrogatepass" if as_text else "surrogateescape", ended)):
                line += piece.data.count(b"\n", at, place.start)
                offset += _length(piece.data[at : place.start], as_text)
                at = place.start
                length = _length(piece.data[at : place.end], as_text)
                yield Hit(self._rules[place.rule], offset, offset + length, line)
            line += piece.data.count(b"\n", at, piece.stop)
            offset += _length(piece.data[at : piece.stop], as_text)

    def _places(self, piece: _Block, errors: str, ended: dict[int, int]) -> Iterator[_Place]:
        """The matches that are the block's own. `ended` says for each rule where in the source its last match ended."""
        for number, low, high in self._windows(piece):
            text = piece.data[low:high].decode("utf-8", errors)
            plain = len(text) == high - low
            skip = ended.get(number, 0) - piece.base - low
            if skip > 0 and not plain:
                skip = len(piece.data[low : low + skip].decode("utf-8", errors))
            expression = compiled(self._rules[number].match.text or "")
            with suppress(TimeoutError):  # such a rule is no match here, as in a record
                for found in expression.finditer(text, max(skip, 0), timeout=SEARCH_TIMEOUT):
                    start, end = found.span() if plain else _in_bytes(text, found.span(), errors)
                    if low + start >= piece.stop:
                        break
                    if low + start >= piece.own:
                        ended[number] = piece.base + low + end
                        yield _Place(low + start, number, low + end)

    def _windows(self, piece: _Block) -> list[tuple[int, int, int]]:
        """Where to try which rule: (number, first byte, end), apart from each other for one rule."""
        data, closed = piece.data, []
        opened = {number: (0, len(data)) for number in self._anchorless}
        line = (0, 0)
        for word, start, end in self._find(data):
            if not line[0] <= start < line[1]:
                stop = data.find(b"\n", start)
                line = data.rfind(b"\n", 0, start) + 1, stop if stop >= 0 else len(data)
            for number in self._owners[word]:
                low, high = _around(data, start, end) if self._crossing[number] else line
                before = opened.get(number)
                if before and low <= before[1]:
                    opened[number] = before[0], max(high, before[1])
                    continue
                if before:
                    closed.append((number, *before))
                opened[number] = low, high
        return closed + [(number, *window) for number, window in opened.items()]


def _around(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The lines that lie within `SPAN` of a place; of a longer line, the part that does."""
    low, high = max(start - SPAN, 0), min(end + SPAN, len(data))
    if low:
        low = data.find(b"\n", low, start) + 1 or _boundary(data, low)
    if high < len(data):
        high = data.rfind(b"\n", end, high) + 1 or _boundary(data, high)
    return low, high


def _blocks(pieces: Iterable[str | bytes], size: int) -> Iterator[_Block]:
    """Blocks that end with a line, or within one that is longer than a block; that one is then seen around the cut."""
    data, own, base = b"", 0, 0
    for piece in pieces:
        for at in range(0, len(piece), size):
            part = piece[at : at + size]
            data += part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            while len(data) - own >= size + SPAN:
                stop = data.rfind(b"\n", own, own + size) + 1 or _boundary(data, own + size)
                ahead = data.rfind(b"\n", stop, stop + SPAN) + 1 or _boundary(data, stop + SPAN)
                yield _Block(data[:ahead], own, stop, base)
                kept = stop if data.endswith(b"\n", 0, stop) else _boundary(data, max(stop - SPAN, 0))
                data, own, base = data[kept:], stop - kept, base + kept
    yield _Block(data, own, len(data), base)


def _boundary(data: bytes, at: int) -> int:
    """The start of the character that the byte `at` is in."""
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _in_bytes(text: str, span: tuple[int, int], errors: str) -> tuple[int, int]:
    start = len(text[: span[0]].encode("utf-8", errors))
    return start, start + len(text[span[0] : span[1]].encode("utf-8", errors))


def _length(data: bytes, as_text: bool) -> int:
    """How long a piece of the source is in the source's own unit."""
    return len(data.decode("utf-8", "surrogatepass")) if as_text and not data.isascii() else len(data)
