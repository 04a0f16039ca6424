"""Turn an exception into the JSON of `model.ErrorRecord`: the chain, and every frame, Python's and C++'s."""

from __future__ import annotations

import ast
import linecache
import os
import types
from collections.abc import Iterator
from typing import Any

CXX = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".inc")
MAX_FRAMES = 400
MAX_CAUSES = 20
#: the name under which code rewritten by tilelang's DSL holds its builder
BUILDER = "__tb"


def record(error: BaseException, context: Any, phase: str | None, kernel: str | None, handled: bool) -> dict[str, Any]:
    """The error and what is behind it; `causes` are nearest first and have no causes of their own."""
    first, *behind = [_one(e, context) for e in chain(error)]
    kind = "compiler" if phase == "device" else "exception"
    return first | {"kind": kind, "phase": phase, "kernel": kernel, "handled": handled, "causes": behind}


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, then its causes: `__cause__`, else `__context__`, and the members of a group."""
    queue, seen = [error], set()
    while queue and len(seen) < MAX_CAUSES:
        one = queue.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        behind = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        queue += [behind] if behind is not None else []
        queue += [e for e in getattr(one, "exceptions", ()) if isinstance(e, BaseException)]


def _one(error: BaseException, context: Any) -> dict[str, Any]:
    return {
        "kind": "exception",
        "type": type_name(type(error)),
        "message": _message(error),
        "frames": frames(error.__traceback__, context),
        "origin": "event",
        "named": _named(error),
    }


def type_name(kind: type) -> str:
    """The name a traceback prints."""
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg or ""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - the script's own __str__ may do anything
        return f"<exception str() failed: {type(failure).__name__}>"


def _named(error: BaseException) -> list[dict[str, Any]]:
    if not isinstance(error, SyntaxError) or not error.filename or not error.lineno:
        return []
    place = {"file": os.path.abspath(error.filename), "line": error.lineno, "column": error.offset or None}
    return [place | {"snippet": (error.text or "").rstrip("\n") or None}]


def frames(trace: types.TracebackType | None, context: Any) -> list[dict[str, Any]]:
    """The frames of a traceback, outermost first; of a very deep one, the first and the last."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    if len(entries) > MAX_FRAMES:
        entries = entries[: MAX_FRAMES // 2] + entries[-MAX_FRAMES // 2 :]
    lines = dsl_lines([entry.tb_frame for entry in entries])
    return [_frame(entry, lines.get(number), context) for number, entry in enumerate(entries)]


def _frame(entry: types.TracebackType, statement: int | None, context: Any) -> dict[str, Any]:
    code = entry.tb_frame.f_code
    file, line = code.co_filename, entry.tb_lineno or 0
    columns: tuple[int | None, int | None] = (None, None)
    if statement is not None and not within_statement(file, statement, line):
        line = statement  # rewritten code carries the line of the decorator, or of nothing
    elif statement is None or line:
        columns = _columns(entry, file, line)
    cxx = file == "<unknown>" or file.endswith(CXX)
    text = "" if cxx else linecache.getline(file, line).strip()
    user = False if cxx else context.is_user(file)
    return {
        "file": os.path.abspath(file) if user else file,
        "line": line,
        "function": code.co_name,
        "text": text,
        "lang": "cxx" if cxx else "python",
        "user": user,
        "column": columns[0],
        "end_column": columns[1],
    }


def dsl_lines(frames: list[types.FrameType]) -> dict[int, int]:
    """For frames that run code rewritten by tilelang's DSL: index -> line of the user's statement being built.

    The rewritten code calls `set_fileline` of its builder before every statement; the line numbers of its own code
    objects are those of the decorator or of a template for many statements. A builder keeps the places of the
    macros it is in, outermost first, so they are matched with its frames from the innermost outwards.
    """
    own: dict[int, list[int]] = {}
    builders: dict[int, Any] = {}
    for number, frame in enumerate(frames):
        if BUILDER in frame.f_code.co_freevars:
            builder = frame.f_locals.get(BUILDER)
            if hasattr(builder, "current_line") and hasattr(builder, "current_file"):
                builders[id(builder)] = builder
                own.setdefault(id(builder), []).append(number)
    found = {}
    for key, numbers in own.items():
        builder = builders[key]
        stack = [*getattr(builder, "macro_fileline_stack", ()), (builder.current_file, builder.current_line, "")]
        for number, (file, line, *_) in zip(reversed(numbers), reversed(stack), strict=False):
            if line > 0 and os.path.abspath(frames[number].f_code.co_filename) == os.path.abspath(file):
                found[number] = line
    return found


def within_statement(file: str, start: int, line: int) -> bool:
    """Whether `line` lies in the statement that starts at line `start` (in its header, for a compound one)."""
    return start <= line <= _statement_ends(file).get(start, start)


_ENDS: dict[str, dict[int, int]] = {}


def _statement_ends(file: str) -> dict[int, int]:
    """First line -> last line of every statement of a file, of its header for those with a body."""
    known = _ENDS.get(file)
    if known is not None:
        return known
    ends: dict[int, int] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            ends[node.lineno] = max(end, ends.get(node.lineno, 0))
    _ENDS[file] = ends
    return ends


def _columns(entry: types.TracebackType, file: str, line: int) -> tuple[int | None, int | None]:
    """The 1-based columns of the failing expression, the end exclusive, if it lies on one line."""
    positions = getattr(entry.tb_frame.f_code, "co_positions", None)
    if positions is None or entry.tb_lasti < 0:
        return None, None
    for number, (first, last, start, end) in enumerate(positions()):
        if number == entry.tb_lasti // 2:
            if first != line or last != line or start is None or end is None:
                return None, None
            text = linecache.getline(file, line).encode()
            return tuple(len(text[:n].decode(errors="replace")) + 1 for n in (start, end))  # type: ignore[return-value]
    return None, None
