"""Make the spans of statements out of tilelang's own macros name the user's line that called the macro.

`T.reduce_max` and others expand a macro written inside tilelang, whose statements carry the line of tilelang's file.
Compiler messages and records that cite such a span help nobody. The builder knows the calling lines while the macro
is expanded; a span is made later, from file and line alone, so the calling line is remembered under these.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any


def name_user_lines(builder: Any, context: Any) -> None:
    """Patch `Builder.set_fileline` (which line is being built) and `tilelang.ir.make_span` (which line is written)."""
    ir = sys.modules["tilelang.ir"]
    callers = threading.local()
    set_fileline, make_span = builder.set_fileline, ir.make_span

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

    builder.set_fileline = remember
    ir.make_span = user_span
