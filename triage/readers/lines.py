"""Raw lines and the text a person would see in them.

Every reader works on `Line`s. A line keeps its raw form and its 1-based number for quoting, and a `view` with
terminal colours, NULs, carriage-return overwrites and the prefixes that CI systems and launchers put in front
(timestamps, `[rank0]:`) taken away. Both are bounded: a line of megabytes is data, not prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from triage.model import Quote

#: longest part of one raw line that is looked at or quoted; the longest real diagnostics are a few kB
VIEW_LIMIT = 16_384
QUOTE_LIMIT = 4_096

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff]")
_PREFIX = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? "  # RFC 3339, CI and container logs
    r"|\[(?:default|rank) ?\d+\]:\s?"  # torchrun, torch.distributed
    r"|\[\d+,\d+\]<std(?:out|err)>:\s?)"  # mpirun --tag-output
)


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1; `raw` has no line terminator; `view` is what a terminal would show of it."""

    number: int
    raw: str
    view: str


def split_lines(text: str) -> list[Line]:
    """Split at line feeds only, so that `number` is the number an editor or `sed -n` shows."""
    raws = text.split("\n")
    if raws and raws[-1] == "":
        raws.pop()
    return [Line(n, raw.removesuffix("\r"), clean(raw)) for n, raw in enumerate(raws, 1)]


def clean(raw: str) -> str:
    view = raw[:VIEW_LIMIT]
    if "\x1b" in view:
        view = _ESCAPE.sub("", view)
    view = view.rstrip("\r")
    if "\r" in view:
        view = view.rpartition("\r")[2]
    if not view.isprintable():
        view = _CONTROL.sub("", view)
    for _ in range(3):  # a rank prefix inside a timestamp prefix, at most
        match = _PREFIX.match(view)
        if match is None:
            break
        view = view[match.end() :]
    return view.rstrip()


def quote(line: Line, artifact: str | None) -> Quote:
    return Quote(text=line.raw[:QUOTE_LIMIT], artifact=artifact, line=line.number)


def with_view(line: Line, view: str) -> Line:
    """The same raw line, seen without a gutter (`| ` of an exception group, `E   ` of pytest)."""
    return Line(line.number, line.raw, view)
