"""Which lines of a script ran: one number a line in a file, written when the line runs first, so no crash loses any."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from . import errors


def trace(script: str, into: str) -> None:
    """From now on, write every line of the script to the file `into` when it runs for the first time."""
    path = os.path.abspath(script)
    open(into, "w").close()
    ran = Lines(path, into)
    if hasattr(sys, "monitoring"):
        _monitor(path, ran)
    else:
        _settrace(path, ran)


class Lines:
    """The lines of one file that ran. Code that tilelang's DSL made of a function counts as that function."""

    def __init__(self, path: str, into: str) -> None:
        self.path = path
        self.into = into
        self.seen: set[int] = set()
        #: the code of the file itself: that of the module, which runs first, and all that is in it
        self.own: set[CodeType] = set()

    def note(self, code: CodeType, line: int | None) -> None:
        if not self.own:
            self.own = set(_nested(code))
        if line is None or line in self.seen or not (code in self.own or errors.is_written(code, line)):
            return
        self.seen.add(line)
        with contextlib.suppress(OSError), open(self.into, "a") as file:  # the script may close every descriptor
            file.write(f"{line}\n")


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _monitor(path: str, ran: Lines) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]

    def on_line(code: CodeType, line: int) -> Any:
        if code.co_filename == path:
            ran.note(code, line)
        return monitoring.DISABLE  # once for each place

    monitoring.use_tool_id(monitoring.COVERAGE_ID, "triage")
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, on_line)
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)


def _settrace(path: str, ran: Lines) -> None:
    def in_script(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            ran.note(frame.f_code, frame.f_lineno)
        return in_script

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return in_script if frame.f_code.co_filename == path else None

    threading.settrace(on_call)
    sys.settrace(on_call)
