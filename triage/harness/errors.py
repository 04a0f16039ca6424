"""Turn an exception into the JSON of `model.ErrorRecord`: the chain, and every frame, Python's and C++'s."""

from __future__ import annotations

import ast
import linecache
import opcode
import os
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CXX = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".inc")
META = re.compile(r"\bmeta\b")
MAX_FRAMES = 400
MAX_CAUSES = 20
#: the name under which code rewritten by tilelang's DSL holds its builder
BUILDER = "__tb"
#: the attribute of an exception raised by a virtual launch that holds the frames in which the real one is raised
RAISED_AT = "_triage_raised_at"
#: the attribute that says why an exception may be the virtual device's own doing
SUSPECT = "_triage_suspect"


def record(error: BaseException, context: Any, phase: str | None, kernel: str | None, handled: bool) -> dict[str, Any]:
    """The error and what is behind it; `causes` are nearest first and have no causes of their own."""
    first, *behind = [_one(one, relation, context) for one, relation in chain(error)]
    phase = phase or phase_of(error, first["frames"])
    kind = "compiler" if phase == "device" else "exception"
    return first | {"kind": kind, "phase": phase, "kernel": kernel, "handled": handled, "causes": behind}


def phase_of(error: BaseException, frames: list[dict[str, Any]]) -> str | None:
    """What the subject was doing when an error arose that no wrapper saw: import, build, call, or None (its own code)."""
    if isinstance(error, (SyntaxError, ImportError)):
        return "import"
    for frame in reversed(frames):
        path = frame["file"].replace(os.sep, "/")
        if path.startswith("<frozen importlib"):
            return "import"
        if "/tilelang/jit/adapter/" in path or (
            path.endswith("/tilelang/jit/kernel.py") and frame["function"] == "__call__"
        ):
            return "call"
        if "/tilelang/language/" in path or "/tilelang/jit/" in path or frame.get("dsl"):
            return "build"
    return None


def chain(error: BaseException) -> Iterator[tuple[BaseException, str | None]]:
    """The exception, then what is behind it and how: cause (`raise … from`), context, or group (a member of one)."""
    queue: list[tuple[BaseException, str | None]] = [(error, None)]
    seen: set[int] = set()
    while queue and len(seen) < MAX_CAUSES:
        one, relation = queue.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one, relation
        if one.__cause__ is not None:
            queue.append((one.__cause__, "cause"))
        elif one.__context__ is not None and not one.__suppress_context__:
            queue.append((one.__context__, "context"))
        queue += [(e, "group") for e in getattr(one, "exceptions", ()) if isinstance(e, BaseException)]


def _one(error: BaseException, relation: str | None, context: Any) -> dict[str, Any]:
    seen = [*frames(error.__traceback__, context), *getattr(error, RAISED_AT, ())]
    if isinstance(error, ImportError):  # as Python itself takes the frames of the import system out
        seen = [frame for frame in seen if not frame["file"].startswith("<frozen importlib")]
    return {
        "kind": "exception",
        "type": type_name(type(error)),
        "message": _message(error),
        "frames": seen,
        "origin": "event",
        "relation": relation,
        "named": _named(error),
    }


def speaks_of_meta(record: dict[str, Any]) -> bool:
    """Whether an error is about the device `meta`, which the user's files on its way do not name."""
    if not META.search(record["message"]):
        return False
    files = {frame["file"] for frame in record["frames"] if frame["user"]}
    return not any(META.search(line) for file in files for line in linecache.getlines(file))


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


#: the instruction of a `raise` and of a failing `assert`
RAISE = opcode.opmap["RAISE_VARARGS"]


@dataclass(frozen=True)
class Entry:
    """A frame at the instruction it is in; `line` may be none of the file in rewritten code (`is_written`)."""

    frame: types.FrameType
    line: int
    instruction: int


def frames(trace: types.TracebackType | None, context: Any) -> list[dict[str, Any]]:
    """The frames from the outermost call to the raising one, without those of the harness.

    Where the harness itself saw the exception pass, the traceback begins in the middle of the stack: the frames
    outside are taken from the running stack. Of a very deep stack the first and the last frames are kept.
    """
    entries = []
    while trace is not None:
        entries.append(Entry(trace.tb_frame, trace.tb_lineno or 0, trace.tb_lasti))
        trace = trace.tb_next
    inside = next((n for n, e in enumerate(entries) if not is_harness(e.frame.f_code.co_filename)), len(entries))
    if inside > 0:
        seen_by = entries[inside - 1] if inside < len(entries) else entries[0]
        entries = [*_outside(seen_by.frame), *entries[inside:]]
    entries = [e for e in entries if not is_harness(e.frame.f_code.co_filename)]
    if len(entries) > MAX_FRAMES:
        entries = entries[: MAX_FRAMES // 2] + entries[-MAX_FRAMES // 2 :]
    lines = dsl_lines([entry.frame for entry in entries])
    return [_frame(entry, lines.get(number), context) for number, entry in enumerate(entries)]


def _outside(frame: types.FrameType) -> list[Entry]:
    """The frames that called `frame`, outermost first."""
    found: list[Entry] = []
    outer = frame.f_back
    while outer is not None:
        found.append(Entry(outer, outer.f_lineno or 0, outer.f_lasti))
        outer = outer.f_back
    found.reverse()
    return found


HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_harness(file: str) -> bool:
    return os.path.abspath(file).startswith(HERE)


def asking(frame: types.FrameType | None, *through: str) -> types.FrameType | None:
    """The nearest frame, from one outwards, that is none of the harness, nor of the packages `through` which it was asked."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if not is_harness(frame.f_code.co_filename) and package not in through:
            return frame
        frame = frame.f_back
    return None


def hide_harness(error: BaseException) -> None:
    """Take the frames of the harness out of the tracebacks of `error` and of what is behind it, for printing."""
    for one, _ in chain(error):
        kept = []
        trace = one.__traceback__
        while trace is not None:
            if not is_harness(trace.tb_frame.f_code.co_filename):
                kept.append(trace)
            trace = trace.tb_next
        following = None
        for trace in reversed(kept):
            trace.tb_next = following
            following = trace
        one.__traceback__ = following


def _frame(entry: Entry, statement: int | None, context: Any) -> dict[str, Any]:
    code = entry.frame.f_code
    file, line = code.co_filename, entry.line
    columns: tuple[int | None, int | None] = (None, None)
    if statement is not None and not is_written(code, line):
        line = statement
    else:
        columns = _columns(entry, file, line)
    cxx = file == "<unknown>" or file.endswith(CXX)
    user = False if cxx else context.is_user(file)
    return {
        "file": os.path.abspath(file) if user else file,
        "line": line,
        "function": code.co_name,
        "text": "" if cxx else linecache.getline(file, line).strip(),
        "lang": "cxx" if cxx else "python",
        "user": user,
        "column": columns[0],
        "end_column": columns[1],
        "dsl": BUILDER in code.co_freevars,
        "raises": None if cxx else _raises(code, entry.instruction),
    }


def _raises(code: types.CodeType, instruction: int) -> bool:
    """Whether a frame stopped at a `raise` or `assert` of its own, and not in something it called."""
    return 0 <= instruction < len(code.co_code) and code.co_code[instruction] == RAISE


def raises_itself(error: BaseException, frame: types.FrameType) -> bool:
    """Whether an exception comes of a `raise` or `assert` in a frame, and not of something that was called there."""
    trace, last = error.__traceback__, None
    while trace is not None:
        last, trace = trace, trace.tb_next
    return last is not None and last.tb_frame is frame and _raises(frame.f_code, last.tb_lasti)


def dsl_lines(frames: list[types.FrameType]) -> dict[int, int]:
    """For frames that run code rewritten by tilelang's DSL: index -> line of the user's statement being built.

    The rewritten code calls `set_fileline` of its builder before every statement. A builder keeps the places of the
    macros it is in, outermost first, and keeps them when an error ends a macro before its body runs: so each frame,
    from the innermost outwards, has the next place that lies in its own function. The place is the last one of which
    building began: an error that arises when a loop ends finds the last statement of its body there.
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
        for number in reversed(numbers):
            code = frames[number].f_code
            at = next((n for n in reversed(range(len(stack))) if _lies_in(code, *stack[n][:2])), None)
            if at is None:
                continue
            found[number] = stack[at][1]
            # a comprehension or lambda runs inside its function's statement
            stack = stack[: at + 1] if code.co_name.startswith("<") else stack[:at]
    return found


#: the DSL's templates have as many lines; what they leave of their own numbers lies above every kernel, below its imports
TEMPLATE_LINES = 3


def is_written(code: types.CodeType, line: int) -> bool:
    """Whether the line number of rewritten code is one of the user's file: it lies in the function, below its header.

    Where the DSL's templates give code no place, it has the number of a line of the template.
    """
    return line > TEMPLATE_LINES and _lies_in(code, code.co_filename, line)


def _lies_in(code: types.CodeType, file: str, line: int) -> bool:
    """Whether a place lies in a function of the file and name of `code`; a comprehension may lie in any."""
    if line <= 0 or os.path.abspath(code.co_filename) != os.path.abspath(file):
        return False
    functions = _functions(code.co_filename)
    inner = code.co_name.startswith("<")
    return any(first <= line <= last and (inner or name == code.co_name) for name, first, last in functions)


_FUNCTIONS: dict[str, list[tuple[str, int, int]]] = {}


def _functions(file: str) -> list[tuple[str, int, int]]:
    """Name, line of `def` and last line of every function of a file."""
    known = _FUNCTIONS.get(file)
    if known is None:
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError, RecursionError):
            tree = ast.Module([], [])
        known = _FUNCTIONS[file] = [
            (node.name, node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
    return known


def _columns(entry: Entry, file: str, line: int) -> tuple[int | None, int | None]:
    """The 1-based columns of the failing expression, the end exclusive, if it lies on one line."""
    code = entry.frame.f_code
    positions = getattr(code, "co_positions", None)
    if positions is None or entry.instruction < 0:
        return None, None
    # the builder compiles a kernel from its source without the indentation that its first line has in the file
    header = linecache.getline(file, code.co_firstlineno)
    moved = len(header) - len(header.lstrip()) if BUILDER in code.co_freevars else 0
    for number, (first, last, start, end) in enumerate(positions()):
        if number == entry.instruction // 2:
            if first != line or last != line or start is None or end is None:
                return None, None
            text = linecache.getline(file, line)[moved:].encode()
            return tuple(moved + len(text[:n].decode(errors="replace")) + 1 for n in (start, end))  # type: ignore[return-value]
    return None, None
