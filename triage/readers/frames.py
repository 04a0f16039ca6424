"""Frame lines of Python, tvm-ffi and faulthandler tracebacks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from triage.model import Frame

User = Callable[[str], bool | None]

_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d{1,9}|\?\?\?)(?:,? in (?P<function>.*))?$')
_CXX_SUFFIXES = (".cc", ".cpp", ".cxx", ".c", ".h", ".hpp", ".cuh", ".cu", ".inl")
_CYTHON_SUFFIXES = (".pxi", ".pyx", ".pxd")


@dataclass(frozen=True, slots=True)
class FrameLine:
    file: str
    line: int
    function: str
    named: bool  # `, in FUNCTION` was there; without it the line belongs to a SyntaxError


def frame_line(view: str) -> FrameLine | None:
    """Read `  File "x.py", line 3, in f`; None where `view` is something else."""
    if 'File "' not in view[:80]:
        return None
    match = _FRAME.match(view)
    if match is None:
        return None
    number = match["line"]
    function = match["function"]
    return FrameLine(match["file"], int(number) if number.isdigit() else 0, function or "", function is not None)


def is_cxx(file: str, line: int) -> bool:
    return file.endswith(_CXX_SUFFIXES) or (file == "<unknown>" and line == 0)


def make_frame(parsed: FrameLine, text: str, user: User) -> Frame:
    cxx = is_cxx(parsed.file, parsed.line)
    foreign = cxx or parsed.file.endswith(_CYTHON_SUFFIXES) or parsed.file.startswith("<frozen")
    return Frame(
        file=parsed.file,
        line=parsed.line,
        function=parsed.function,
        text=text,
        lang="cxx" if cxx else "python",
        user=False if foreign else user(parsed.file),
    )


def doubt_rewritten_lines(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Take the claim to be the user's from frames whose line cannot be true.

    TileLang's DSL runs a rewritten copy of the kernel, and some expressions of it carry line numbers of a template: the
    traceback then shows an import, say, for a line of the kernel. Where the decorator that starts the build is itself
    in the traceback, the kernel's body lies below it; a line at or above it is such a one.
    """
    decorator: Frame | None = None
    out: list[Frame] = []
    for frame in frames:
        if frame.user is True:
            building = bool(out) and "ir_gen.gen(builder)" in out[-1].text
            if building and decorator is not None and decorator.file == frame.file and frame.line <= decorator.line:
                frame = replace(frame, user=None, text="")
            decorator = frame if frame.text.startswith("@") else None
        out.append(frame)
    return tuple(out)
