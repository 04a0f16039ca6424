"""Python tracebacks, with the C++ frames of tvm-ffi in them, and the chains and groups they form."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from triage.model import ErrorRecord, Frame, Location
from triage.readers.blocks import CAUSE, CONTEXT, TRACEBACK, bare_exception_line, exception_line, starts_block
from triage.readers.compiler import COMMAND, COMPILER_OUTPUT, compiler_causes, diagnostic, is_output_line
from triage.readers.frames import User, doubt_rewritten_lines, frame_line, make_frame
from triage.readers.lines import Line, quote, with_view
from triage.readers.messages import mentions, spans

#: the marks below the failing expression; CPython drops their indentation where the line ends in a comment
_MARKERS = re.compile(r"\s*[\^~][\s\^~]*$")
_GROUP_GUTTER = re.compile(r" *[|+] ?")
_GROUP_ITEM = re.compile(r" *\+(?:-\+)?-{3,} (?:\d+|\.\.\.) -{3,}$| *\+-{3,}$")
_NESTED = "Exception Group Traceback (most recent call last):"
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
#: how generated sources begin
_SOURCE_HEADS = ("#", "//", "/*", "extern ", "using ")
#: the quotes around the traceback of another process (`multiprocessing.pool.RemoteTraceback`)
_REMOTE_QUOTES = '"""'


@dataclass(frozen=True, slots=True)
class Source:
    """Where the lines come from, and who knows the user's files."""

    artifact: str | None
    user: User


def is_header(view: str) -> bool:
    """The header, also behind text that was printed without a line feed."""
    return view.endswith(TRACEBACK) and not view.endswith("Exception Group " + TRACEBACK)


def is_traceback_start(view: str) -> bool:
    return is_header(view) or view.lstrip().startswith("+ Exception Group Traceback") or frame_line(view) is not None


def read_chain(lines: Sequence[Line], start: int, source: Source) -> tuple[ErrorRecord | None, int]:
    """Read the traceback at `start` and those it is chained to; return the last with the others in `causes`.

    None where frames are all there is: a traceback whose end was cut off still counts as an error with an empty type, but
    a lone frame line without header does not.
    """
    links: list[Link] = []
    relation = ""
    at = start
    while True:
        record, at = _read_one(lines, at, source)
        links += [Link(record, relation)] if record is not None else []
        link = _skip_blank(lines, at)
        if link < len(lines) and lines[link].view == _REMOTE_QUOTES:
            link = _skip_blank(lines, link + 1)
        if link >= len(lines) or not lines[link].view.startswith((CAUSE, CONTEXT)):
            return fold(links), at
        relation = "cause" if lines[link].view.startswith(CAUSE) else "context"
        at = _skip_blank(lines, link + 1)
        if at >= len(lines) or not _may_follow_link(lines[at].view):
            return fold(links), link + 1


@dataclass(frozen=True, slots=True)
class Link:
    """An error of a chain; `relation` says what the one *before* it is to it."""

    record: ErrorRecord
    relation: str


def fold(links: Sequence[Link]) -> ErrorRecord | None:
    """The last error of a chain with the others in `causes`, flat and nearest first; None for an empty chain."""
    if not links:
        return None
    behind = [replace(links[n].record, relation=links[n + 1].relation) for n in reversed(range(len(links) - 1))]
    last = links[-1].record
    return replace(last, causes=(*last.causes, *behind))


def _may_follow_link(view: str) -> bool:
    return is_traceback_start(view) or exception_line(view) is not None


def _skip_blank(lines: Sequence[Line], at: int) -> int:
    while at < len(lines) and not lines[at].view.strip():
        at += 1
    return at


def _read_one(lines: Sequence[Line], start: int, source: Source) -> tuple[ErrorRecord | None, int]:
    view = lines[start].view
    if view.lstrip().startswith("+ Exception Group Traceback"):
        return _read_group(lines, start, source)
    if is_header(view):
        return _read_plain(lines, start + 1, source, header=lines[start])
    if frame_line(view) is not None:
        return _read_plain(lines, start, source, header=None)
    return _finish(lines, start, (), source)  # an exception without a traceback of its own


def _read_plain(
    lines: Sequence[Line], start: int, source: Source, header: Line | None, embedded: bool = False
) -> tuple[ErrorRecord | None, int]:
    frames: list[Frame] = []
    at = start
    last_frame = header
    while at < len(lines):
        view = lines[at].view
        parsed = frame_line(view)
        if parsed is None:
            if view and not view[0].isspace() and not _MARKERS.match(view):
                break
            if not view and not _goes_on(lines, at):
                break
            at += 1
            continue
        follow = at + 1
        text = _source_text(lines[follow].view, loose=not view[0].isspace()) if follow < len(lines) else ""
        follow += bool(text)
        frames.append(make_frame(parsed, text, source.user))
        last_frame = lines[at]
        at = follow
    named = exception_line(lines[at].view) if at < len(lines) else None
    # `python bad.py` prints a syntax error without header and function; nothing else looks like that.
    bare = header is None and not any(f.function or f.lang == "cxx" for f in frames)
    if named is not None and (not bare or named[0] in _SYNTAX_ERRORS):
        return _finish(lines, at, tuple(frames), source, embedded)
    if header is None or last_frame is None:
        return None, max(at, start + 1)
    cut = ErrorRecord(
        kind="exception", type="", message="", frames=tuple(frames), quote=quote(last_frame, source.artifact)
    )
    return cut, at


def _source_text(view: str, loose: bool) -> str:
    """The source line below a frame line; `loose` says that the text was pasted somewhere and lost its indentation."""
    if _MARKERS.match(view) or frame_line(view) is not None:
        return ""
    if view.startswith("    ") or (loose and bare_exception_line(view) is None):
        return view.strip()
    return ""


def _goes_on(lines: Sequence[Line], blank: int) -> bool:
    """tvm-ffi puts empty lines between the frames of a re-entered Python callback and before the exception line."""
    after = _skip_blank(lines, blank)
    if after >= len(lines) or after > blank + 3:
        return False
    view = lines[after].view
    return frame_line(view) is not None or bare_exception_line(view) is not None


def _finish(
    lines: Sequence[Line], at: int, frames: tuple[Frame, ...], source: Source, embedded: bool = False
) -> tuple[ErrorRecord | None, int]:
    """Read the exception line at `at` and its message, which may go on over the lines below."""
    found = exception_line(lines[at].view)
    if found is None:
        return None, at + 1
    kind, first = found
    if first.startswith(TRACEBACK) and not embedded:
        return _read_embedded(lines, at, kind, frames, source)
    end = _message_end(lines, at, first)
    views = [first, *(line.view for line in lines[at + 1 : end])]
    while len(views) > 1 and not views[-1].strip():
        views.pop()
    message = "\n".join(views)
    named = spans(views, source.user)
    if kind in _SYNTAX_ERRORS and frames and not frames[-1].function:
        bad = frames[-1]
        named = (Location(bad.file, bad.line, snippet=bad.text or None), *named) if bad.user is not False else named
    record = ErrorRecord(
        kind="exception",
        type=kind,
        message=message,
        frames=doubt_rewritten_lines(frames),
        quote=quote(lines[at], source.artifact),
        named=named,
        mentions=() if COMPILER_OUTPUT.search(message) else mentions(message),
    )
    body = [with_view(lines[at], first), *lines[at + 1 : end]]
    causes = compiler_causes(body, source.artifact, source.user)
    return replace(record, causes=causes), end


def _read_embedded(
    lines: Sequence[Line], at: int, kind: str, frames: tuple[Frame, ...], source: Source
) -> tuple[ErrorRecord | None, int]:
    """TVM before tvm-ffi raised errors whose message is a C++ traceback of its own, ended by the real message."""
    inner, end = _read_plain(lines, at + 1, source, header=lines[at], embedded=True)
    if inner is None or not inner.type:
        return ErrorRecord("exception", kind, TRACEBACK, frames=frames, quote=quote(lines[at], source.artifact)), max(
            end, at + 1
        )
    return replace(inner, type=kind, frames=(*frames, *inner.frames)), end


def _message_end(lines: Sequence[Line], at: int, first: str) -> int:
    """Index after the last line of the message whose first line is `lines[at]`.

    An empty line ends a message, and so does the next thing that is certainly something else. Only a message that
    holds a compiler's output has empty lines of its own.
    """
    if COMPILER_OUTPUT.match(first):
        return _compiler_output_end(lines, at + 1)
    stop = at + 1
    while stop < len(lines) and lines[stop].view and not _ends_message(lines[stop].view):
        if COMPILER_OUTPUT.match(lines[stop].view):
            return _compiler_output_end(lines, stop + 1)
        stop += 1
    if first.startswith(_SOURCE_HEADS):
        mark = _first(lines, stop, lambda view: COMPILER_OUTPUT.match(view) is not None)
        if mark is not None:
            return _compiler_output_end(lines, mark + 1)
    return stop


def _compiler_output_end(lines: Sequence[Line], at: int) -> int:
    """The command line is printed last; where it is missing, output ends at an empty line that no diagnostic follows."""
    command = _first(lines, at, lambda view: view.startswith(COMMAND))
    if command is not None:
        return command + 1
    while at < len(lines) and not _ends_message(lines[at].view):
        if not lines[at].view:
            after = _skip_blank(lines, at)
            if after >= len(lines) or not (diagnostic(lines[after]) or is_output_line(lines[after].view)):
                return at
            at = after
        at += 1
    return at


def _first(lines: Sequence[Line], at: int, wanted: Callable[[str], bool]) -> int | None:
    """The first line from `at` on that is `wanted`, before one that ends every message or begins another error."""
    while at < len(lines) and not _ends_message(lines[at].view) and frame_line(lines[at].view) is None:
        if wanted(lines[at].view):
            return at
        at += 1
    return None


def _ends_message(view: str) -> bool:
    return view.startswith(_REMOTE_QUOTES) or starts_block(view)


def _read_group(lines: Sequence[Line], start: int, source: Source) -> tuple[ErrorRecord | None, int]:
    """Read an exception group: its own record, with the members (of nested groups too) as causes in order."""
    end = start + 1
    while end < len(lines) and (_GROUP_GUTTER.match(lines[end].view) or _is_item_text(lines[end].view)):
        end += 1
    chunks: list[list[Line]] = [[]]
    for line in lines[start + 1 : end]:
        if _GROUP_ITEM.match(line.view):
            chunks.append([])
        else:
            gutter = _GROUP_GUTTER.match(line.view)
            chunks[-1].append(with_view(line, line.view[gutter.end() :] if gutter else line.view))
    own, _ = _read_plain(chunks[0], 0, source, header=lines[start]) if chunks[0] else (None, 0)
    members: list[ErrorRecord] = []
    for chunk in chunks[1:]:
        body = [_without_group_header(line) for line in chunk]
        first = _skip_blank(body, 0)
        if first < len(body) and _NESTED in chunk[first].view and chunk is not chunks[-1]:
            continue  # its members are the next chunks
        if first < len(body) and _may_follow_link(body[first].view):
            member, _ = read_chain(body, first, source)
            if member is not None:
                members.append(replace(member, relation="group"))
    if own is None:
        own = ErrorRecord(kind="exception", type="", message="", quote=quote(lines[start], source.artifact))
    return replace(own, causes=tuple(members)), end


def _is_item_text(view: str) -> bool:
    # The second line of a member's message comes without the gutter (a quirk of CPython): accept one that starts nothing.
    return bool(view) and not view[0].isspace() and not starts_block(view) and exception_line(view) is None


def _without_group_header(line: Line) -> Line:
    return with_view(line, TRACEBACK) if _NESTED in line.view else line
