"""How far one word is from another, and which of many are nearest. Pure."""

from __future__ import annotations

from collections.abc import Iterable

#: more candidates than these are no help to anybody
MOST_NAMES = 6


def distance(one: str, other: str) -> int:
    """Letters to insert, remove, replace or swap with the next one, to make one word of the other; words that differ in
    case alone are 1 apart."""
    if one != other and one.lower() == other.lower():
        return 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        now = [i]
        for j, b in enumerate(other, 1):
            cost = min(row[j] + 1, now[j - 1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            now.append(cost)
        before, row = row, now
    return row[-1]


def nearest(word: str, known: Iterable[str], related: bool = True) -> list[tuple[int, str]]:
    """Known words within reach of a misspelt one, the nearest first: as many letters apart as it has thirds, at least
    one and at most two. With `related` a word that abbreviates or extends the other is in reach, too, behind these.

    No more than `MOST_NAMES`, and never some of several that are equally far: what is left out could be the right one.
    """
    reach = max(1, min(2, len(word) // 3))
    found = {}
    for name in known:
        if name == word:
            continue
        far = distance(word, name)
        if far <= reach:
            found[name] = far
        elif related and _related(word.lower(), name.lower()):
            found[name] = reach + 1
    ranked = sorted((far, name) for name, far in found.items())
    while len(ranked) > MOST_NAMES:
        ranked = [one for one in ranked if one[0] < ranked[-1][0]]
    return ranked


def _related(one: str, other: str) -> bool:
    """Whether a word is the other with letters left out (`trans_b`, `transpose_b`), or they share a long part of their
    parts (`pipeline_stages`, `num_stages`)."""
    short, long = sorted((one, other), key=len)
    if len(short) < 3:
        return False
    letters = iter(long)
    left_out = short[0] == long[0] and 2 * len(short) >= len(long) and all(letter in letters for letter in short)
    shared = {part for part in one.split("_") if len(part) > 3} & set(other.split("_"))
    return left_out or bool(shared) or long.startswith(short) or long.endswith(short)
