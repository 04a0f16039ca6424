"""Drawing the excerpt of a user's file: line numbers, the marker at the faulty line, carets, labels below their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from triage.report.contract import Excerpt, LocationEntry, Verdict
from triage.report.text import one_line, visible

INDENT = 2
#: what is underlined where only the column is known: the name that begins there
_NAME = re.compile(r"[\w.]+|.")


@dataclass(frozen=True)
class Drawn:
    """One line of the drawing: the gutter with the line number, and the text beside it."""

    gutter: str
    text: str
    kind: Literal["code", "fault", "caret", "label", "gap", "file"]


def draw(verdict: Verdict, width: int, path: Callable[[str], str] = one_line) -> Iterator[Drawn]:
    """Draw the excerpts of a verdict in lines of at most `width` characters.

    Files other than the location's get a line with their name, written as `path` says.
    """
    excerpts = verdict.get("excerpts", [])
    if not excerpts:
        return
    location = verdict["location"]
    digits = max(len(str(e["first"] + len(e["lines"]) - 1)) for e in excerpts)
    main = location["file"] if location else None
    ordered = [e for e in excerpts if e["file"] == main] + [e for e in excerpts if e["file"] != main]
    previous: str | None = main
    for number, excerpt in enumerate(ordered):
        if excerpt["file"] != previous:
            yield Drawn(" " * (INDENT + digits + 1), path(excerpt["file"]), "file")
        elif number:
            yield Drawn(" " * (INDENT + digits - 1) + "…", "", "gap")
        previous = excerpt["file"]
        yield from _excerpt(excerpt, verdict, location if excerpt["file"] == main else None, digits, width)


def _excerpt(
    excerpt: Excerpt, verdict: Verdict, location: LocationEntry | None, digits: int, width: int
) -> Iterator[Drawn]:
    labels: dict[int, list[str]] = {}
    for label in verdict["labels"]:
        if label["file"] == excerpt["file"]:
            labels.setdefault(label["line"], []).append(label["text"])
    room = width - INDENT - digits - 3
    bare = " " * (INDENT + digits) + " │ "
    for line, raw in enumerate(excerpt["lines"], start=excerpt["first"]):
        faulty = location is not None and line == location["line"]
        gutter = f"{'▶ ' if faulty else '  '}{line:>{digits}} │ "
        start, end = _marked(raw, location) if faulty and location else (0, 0)
        shift = max(0, min(start - room // 3, len(visible(raw)) - room)) if end > room else 0
        yield Drawn(gutter, _window(visible(raw), shift, room), "fault" if faulty else "code")
        if end > start:
            length = max(1, min(end - shift, room) - (start - shift))
            yield Drawn(bare, " " * (start - shift) + "^" * length, "caret")
        indent = len(raw) - len(raw.lstrip())
        for text in labels.get(line, ()):
            yield Drawn(bare, _window(" " * len(visible(raw[:indent])) + "· " + one_line(text), 0, room), "label")


def _marked(raw: str, location: LocationEntry) -> tuple[int, int]:
    """The columns (from 0, end exclusive) of the drawn line to underline; empty where no column is known."""
    column = location["column"]
    if column is None or not 1 <= column <= len(raw):
        return 0, 0
    snippet = (location["snippet"] or "").strip()
    name = _NAME.match(raw, column - 1)
    length = len(snippet) if snippet and raw.startswith(snippet, column - 1) else len(name.group()) if name else 1
    start = len(visible(raw[: column - 1]))
    return start, start + max(1, len(visible(raw[: column - 1 + length])) - start)


def _window(text: str, shift: int, room: int) -> str:
    cut = text[shift : shift + room]
    if shift:
        cut = "…" + cut[1:]
    if len(text) > shift + room:
        cut = cut[: room - 1] + "…"
    return cut


def changed_lines(patch: str) -> list[str]:
    """The removed and added lines of a unified diff, without their common indentation, for reading only."""
    changed = [
        visible(line)
        for line in patch.splitlines()
        if line[:1] in ("-", "+") and not line.startswith(("--- ", "+++ ")) and line[1:].strip()
    ]
    common = min((len(line) - 1 - len(line[1:].lstrip()) for line in changed), default=0)
    return [f"{line[0]} {line[1 + common :]}" for line in changed]
