"""Warnings that speak about the author's program although the exit status may be 0."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.model import ErrorRecord, FoundBy, Location, WarningRecord
from triage.readers.blocks import TILELANG_LOG, TVM_LOG, starts_block
from triage.readers.frames import User
from triage.readers.lines import Line, quote
from triage.readers.messages import mentions, spans

_PYTHON = re.compile(r"(?P<file>\S[^:]*):(?P<line>\d{1,9}): (?P<category>\w*Warning): (?P<text>.*)")
#: one logger record of TileLang may print the whole program it failed to build
_BLOCK_LEVELS = ("CRITICAL", "ERROR")
_FIELD = re.compile(r"[a-z_]+=")


def is_log_start(view: str) -> bool:
    return (
        bool(view) and (view[0] in "[ " or view[0].isdigit()) and (_tvm(view) or TILELANG_LOG.match(view) is not None)
    )


def _tvm(view: str) -> bool:
    return view[0] == "[" and TVM_LOG.match(view) is not None


def read_log(
    lines: Sequence[Line], start: int, artifact: str | None, user: User
) -> tuple[WarningRecord | ErrorRecord | None, int]:
    """Read one record of TVM's or TileLang's logger; None for one that only informs."""
    view = lines[start].view
    match = TVM_LOG.match(view)
    if match is not None:
        return _read_tvm(lines, start, match, artifact, user)
    found = TILELANG_LOG.match(view)
    if found is None:
        return None, start + 1
    if found["level"] in ("INFO", "DEBUG"):
        return None, start + 1
    told = _indented_end(lines, start + 1)
    end = _block_end(lines, told) if found["level"] in _BLOCK_LEVELS else told
    text = "\n".join([found["text"], *(line.view for line in lines[start + 1 : told])])
    return WarningRecord(text=text, origin="tilelang", quote=quote(lines[start], artifact)), end


def _read_tvm(
    lines: Sequence[Line], start: int, match: re.Match[str], artifact: str | None, user: User
) -> tuple[WarningRecord | ErrorRecord | None, int]:
    end = _indented_end(lines, start + 1)
    views = [match["text"], *(line.view for line in lines[start + 1 : end])]
    text = "\n".join(views).rstrip()
    level = match["level"]
    if level in ("Error", "Fatal"):
        error = ErrorRecord(
            kind="check",
            type=f"tvm log {level.lower()}",
            message=text,
            quote=quote(lines[start], artifact),
            named=spans(views, user),
            mentions=mentions(text),
        )
        return error, end
    if level != "Warning":
        return None, end
    at = next(iter(spans(views, user)), None)
    return WarningRecord(text=text, origin="tilelang", at=at, quote=quote(lines[start], artifact)), end


def _indented_end(lines: Sequence[Line], at: int) -> int:
    """C++ warnings indent what belongs to them; the advice printed below without indentation is left out."""
    while at < len(lines) and lines[at].view[:1].isspace() and not starts_block(lines[at].view):
        at += 1
    return at


def _block_end(lines: Sequence[Line], at: int) -> int:
    """A failed build logs `args=…` and `source=…`, the latter a whole program, indented from its second line on."""
    while at < len(lines) and (lines[at].view[:1].isspace() or _FIELD.match(lines[at].view)):
        at += 1
    return at


def read_python_warning(
    lines: Sequence[Line], start: int, artifact: str | None, user: User
) -> tuple[WarningRecord | None, int]:
    """`file.py:3: UserWarning: text`, with the source line that `warnings` prints below."""
    view = lines[start].view
    match = _PYTHON.match(view) if "Warning: " in view else None
    if match is None:
        return None, start
    end = start + 1
    snippet = None
    if end < len(lines) and lines[end].view.startswith("  ") and lines[end].view.strip():
        snippet = lines[end].view.strip()
        end += 1
    file = match["file"]
    at = None
    if user(file) is not False and file.endswith(".py"):
        at = Location(file, int(match["line"]), snippet=snippet, found_by=FoundBy.FRAME)
    text = f"{match['category']}: {match['text']}"
    return WarningRecord(text=text, origin="python", at=at, quote=quote(lines[start], artifact)), end
