"""Cutting the lines around a location out of the user's file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from triage.model import Label, Location
from triage.report.contract import Excerpt

#: lines shown before and after the faulty one: enough to see the enclosing loop, few enough for one screen
AROUND = 2
#: lines shown around a label: the declaration itself says it
AROUND_LABEL = 0
#: two pieces closer than this are drawn as one, because a gap mark would take as much room as the lines it hides
JOIN_GAP = 2


def cut(location: Location | None, labels: Iterable[Label], sources: Mapping[str, str]) -> list[Excerpt]:
    """The excerpts that show `location` and `labels`, by file and line; files without text in `sources` are left out."""
    wanted: dict[str, set[int]] = {}
    places = [(location.file, location.line, AROUND)] if location else []
    places += [(label.file, label.line, AROUND_LABEL) for label in labels]
    for file, line, around in places:
        wanted.setdefault(file, set()).update(range(line - around, line + around + 1))
    excerpts: list[Excerpt] = []
    for file, numbers in wanted.items():
        lines = sources.get(file, "").splitlines()
        excerpts += [_piece(file, run, lines) for run in _runs(n for n in numbers if 1 <= n <= len(lines))]
    return excerpts


def checked(location: Location | None, sources: Mapping[str, str]) -> Location | None:
    """The location without its column where no expression can begin there: in blank space, inside a word, past the end.

    A kernel whose source was rewritten before it ran reports columns of the rewritten text.
    """
    if location is None or location.column is None or location.file not in sources:
        return location
    lines = sources[location.file].splitlines()
    line = lines[location.line - 1] if 1 <= location.line <= len(lines) else ""
    at = location.column - 1
    before, here = line[max(at - 1, 0) : at], line[at : at + 1]
    inside_word = (before + here).isidentifier() and before != "" and (before.isalnum() or before == "_")
    if at < 0 or not here.strip() or inside_word or before == ".":
        return replace(location, column=None)
    return location


def _piece(file: str, run: tuple[int, int], lines: list[str]) -> Excerpt:
    first, last = run
    while first < last and not lines[first - 1].strip():
        first += 1
    while first < last and not lines[last - 1].strip():
        last -= 1
    return {"file": file, "first": first, "lines": lines[first - 1 : last]}


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive runs (first, last) of the numbers, joined over gaps of at most `JOIN_GAP` missing ones."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number - runs[-1][1] <= JOIN_GAP + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
