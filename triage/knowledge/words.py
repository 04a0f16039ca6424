"""Many fixed texts looked for at once. Pure.

One Aho-Corasick automaton finds all of them in the time it takes to read the text once; where there is no wheel of the
library for this Python or platform, they are looked for one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

try:
    import ahocorasick_rs
except ImportError:
    ahocorasick_rs = None  # type: ignore[assignment]

#: (number of the word, start, end) of every place of every word, in the order of the ends
Find = Callable[[bytes], list[tuple[int, int, int]]]


def finder(words: Sequence[bytes], automaton: str) -> Find:
    """A search for all of `words`, none of which is empty; `automaton` is one of the library's `Implementation`."""
    if ahocorasick_rs is None or not words:
        return lambda data: sorted(_one_by_one(words, data), key=lambda place: place[2])
    kind = getattr(ahocorasick_rs.Implementation, automaton)
    made = ahocorasick_rs.BytesAhoCorasick(words, implementation=kind)
    return lambda data: made.find_matches_as_indexes(data, overlapping=True)


def _one_by_one(words: Sequence[bytes], data: bytes) -> Iterator[tuple[int, int, int]]:
    for number, word in enumerate(words):
        start = data.find(word)
        while start >= 0:
            yield number, start, start + len(word)
            start = data.find(word, start + 1)
