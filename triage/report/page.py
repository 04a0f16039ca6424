"""Text of one width: headings in a margin, wrapped entries beside them. Knows nothing of reports."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from triage.report.text import GLUE, one_line

#: the margin that holds the headings; the longest is "NOT CHECKED"
MARGIN = 12


class Page:
    """Output of one width: headings in a margin, wrapped text beside them."""

    def __init__(self, width: int, color: bool, base: str | None) -> None:
        self.width = width
        self._base = base
        self._console = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=color,
            color_system="standard" if color else None,
            no_color=not color,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def path(self, path: str) -> str:
        """A path as it is shown: relative where that is shorter, and clean."""
        if self._base and os.path.isabs(path) and path.startswith(self._base.rstrip("/") + "/"):
            path = os.path.relpath(path, self._base)
        return one_line(path)

    @property
    def body_width(self) -> int:
        return self.width - MARGIN

    def line(self, text: Text) -> None:
        text.rstrip()
        self._console.print(text, overflow="fold", no_wrap=True, crop=False, soft_wrap=True)

    def section(self, heading: str, items: Iterable[Text], limit: int | None = None, *, close: bool = False) -> None:
        """Items under a heading, each wrapped; those above `limit` are only counted. Nothing is drawn without items.

        `close` leaves out the empty line before it.
        """
        entries = list(items)
        if not entries:
            return
        if not close:
            self.line(Text())
        shown = entries[:limit]
        if limit is not None and len(entries) > limit:
            shown.append(Text(f"… and {len(entries) - limit} more in the full report", style="dim"))
        label = Text(heading.ljust(MARGIN), style="bold")
        for entry in shown:
            for line in self.wrap(entry, self.body_width):
                self.line(Text.assemble(label, line))
                label = Text(" " * MARGIN)

    def wrap(self, text: Text, width: int) -> list[Text]:
        """Wrap at blanks; lines after the first are indented like the first one's list mark, if it has one."""
        lines: list[Text] = []
        for part in text.split("\n", allow_blank=True):
            indent = hang(part.plain)
            first, *rest = part.wrap(self._console, width, overflow="fold") or [Text()]
            lines.append(first)
            if rest:
                tail = part[len(first.plain) :]
                tail = tail[len(tail.plain) - len(tail.plain.lstrip()) :]
                lines += [
                    Text.assemble(" " * indent, line)
                    for line in tail.wrap(self._console, width - indent, overflow="fold")
                ]
        for line in lines:
            line.rstrip()
        return lines

    def text(self) -> str:
        file = self._console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue().replace(GLUE, " ")


def hang(line: str) -> int:
    """How far the lines after the first are indented: as its text is, behind a list mark."""
    body = line.lstrip()
    indent = len(line) - len(body)
    mark = body.split(" ", 1)[0]
    is_mark = mark in ("✓", "•", "✗", "│") or (mark.endswith(".") and mark[:-1].isdigit())
    return indent + (len(mark) + 1 if is_mark else 0)
