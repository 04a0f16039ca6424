"""Make the spans of statements name the user's lines where tilelang's own bookkeeping misses them.

`T.reduce_max` and others expand a macro written inside tilelang, whose statements carry the line of tilelang's file.
Compiler messages and records that cite such a span help nobody. The builder knows the calling lines while the macro
is expanded; a span is made later, from file and line alone, so the calling line is remembered under these.

A region such as `T.ws` is a frame that enters others in C++, and statements go to the innermost of these. The builder
looks into the frame of a launch only, so all statements of another such region would get the line of its `with`.

`a or b` and `a if c else b` of kernel values are frames, too, at whose end a statement's line is written to what has been built by then. The statement
itself, of which they are a part, is built afterwards, and would get the line of the loop around it.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any


def name_user_lines(builder: Any, context: Any) -> None:
    """Patch `Builder.set_fileline` (which line is being built), `Builder._current_stmt_frame` (where its statements
    go), `tilelang.ir.make_span` (which line is written), `Builder.boolop` and `Builder.ifexp` (parts of a statement)."""
    ir = sys.modules["tilelang.ir"]
    callers = threading.local()
    set_fileline, make_span = builder.set_fileline, ir.make_span
    statement_frame = builder._current_stmt_frame

    @functools.wraps(set_fileline)
    def remember(self: Any, filename: str, lineno: int, name: str) -> None:
        set_fileline(self, filename, lineno, name)  # writes out what is pending under the callers known so far
        if not context.is_user(filename):
            stack = reversed(self.macro_fileline_stack)
            place = next(((file, line) for file, line, *_ in stack if context.is_user(file)), None)
            callers.__dict__[filename, lineno] = place

    @functools.wraps(make_span)
    def user_span(file: str, line: int) -> Any:
        return make_span(*(callers.__dict__.get((file, line)) or (file, line)))

    @functools.wraps(statement_frame)
    def innermost(self: Any) -> Any:
        frame = statement_frame(self)
        while inner := getattr(frame, "frames", None):
            frame = inner[-1]
        return frame

    for name in ("boolop", "ifexp"):
        setattr(builder, name, _within_a_line(getattr(builder, name), set_fileline))
    builder.set_fileline = remember
    builder._current_stmt_frame = innermost
    ir.make_span = user_span


def _within_a_line(part: Any, set_fileline: Any) -> Any:
    """A method that builds a part of a statement, after which the line goes on."""

    @functools.wraps(part)
    def built(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = part(self, *args, **kwargs)
        set_fileline(self, self.current_file, self.current_line, self.current_macro_name)
        return value

    return built
