"""Failures in pytest's own layout: `E   ` lines, and places as `path:line: in function`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from triage.model import ErrorRecord, Frame
from triage.readers.blocks import CAUSE, CONTEXT, exception_line
from triage.readers.compiler import COMPILER_OUTPUT, compiler_causes
from triage.readers.frames import FrameLine, User, make_frame
from triage.readers.lines import Line, quote, with_view
from triage.readers.messages import mentions, spans
from triage.readers.traceback import Link, fold

_HEADER = re.compile(r"_{3,} (?P<name>\S.*?) _{3,}$")
_END = re.compile(r"_{3,} \S.* _{3,}$|={3,}|-{3,} Captured ")
_PLACE = re.compile(r"(?P<file>[^\s:][^:]*):(?P<line>\d{1,9}): ?(?:in (?P<function>.*)|(?P<type>[A-Za-z_][\w.]*))?$")
_ERROR = re.compile(r"E(?:   (?P<text>.*))?$")


def is_failure_start(view: str) -> bool:
    return view.startswith("___") and _HEADER.match(view) is not None


def pasted_error(view: str) -> str:
    """A line without pytest's `E   `, for lines that were copied out of a failure."""
    error = _ERROR.match(view)
    return (error["text"] or "").strip() if error else view


def read_failure(lines: Sequence[Line], start: int, artifact: str | None, user: User) -> tuple[ErrorRecord | None, int]:
    """Read one failure section; None (and only its header read) if it is not in pytest's layout."""
    end = start + 1
    while end < len(lines) and not _END.match(lines[end].view):
        end += 1
    links: list[Link] = []
    relation = ""
    part: list[Line] = []
    for line in [*lines[start + 1 : end], None]:
        if line is not None and not line.view.startswith((CAUSE, CONTEXT)):
            part.append(line)
            continue
        record = _part(part, artifact, user)
        links += [Link(record, relation)] if record is not None else []
        relation = "cause" if line is not None and line.view.startswith(CAUSE) else "context"
        part = []
    failure = fold(links)
    return failure, end if failure is not None else start + 1


def _part(lines: list[Line], artifact: str | None, user: User) -> ErrorRecord | None:
    frames: list[Frame] = []
    errors: list[Line] = []
    raised = ""
    code = ""
    for line in lines:
        error = _ERROR.match(line.view)
        if error is not None:
            errors.append(with_view(line, error["text"] or ""))
            continue
        place = _PLACE.match(line.view)
        if place is not None:
            function = place["function"] or ""
            frames.append(make_frame(FrameLine(place["file"], int(place["line"]), function, True), code, user))
            raised = place["type"] or raised
            code = ""
        elif line.view.startswith(">"):
            code = line.view[1:].strip()
        elif frames and not frames[-1].text and line.view.startswith("    ") and not line.view.strip("^~ "):
            continue
        elif frames and not frames[-1].text and line.view.startswith("    "):
            frames[-1] = replace(frames[-1], text=line.view.strip())
    if not errors:
        return None
    indent = len(errors[0].view) - len(errors[0].view.lstrip())  # pytest indents as the failing statement was
    errors = [with_view(line, line.view[indent:]) if not line.view[:indent].strip() else line for line in errors]
    first = exception_line(errors[0].view)
    kind, text = first if first else (raised, errors[0].view)
    message = "\n".join([text, *(line.view for line in errors[1:])]).rstrip()
    return ErrorRecord(
        kind="exception",
        type=kind,
        message=message,
        frames=tuple(frames),
        causes=compiler_causes([with_view(errors[0], text), *errors[1:]], artifact, user),
        quote=quote(errors[0], artifact),
        named=spans([line.view for line in errors], user),
        mentions=() if COMPILER_OUTPUT.search(message) else mentions(message),
    )
