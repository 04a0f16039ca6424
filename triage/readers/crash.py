"""Deaths without an exception: signals, aborts, and the stacks that faulthandler and TVM print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from triage.model import ErrorRecord, Frame
from triage.readers.blocks import CRASH_HEADS, shell_crash
from triage.readers.frames import User, frame_line, make_frame
from triage.readers.lines import Line, quote

_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Aborted": "SIGABRT",
    "Killed": "SIGKILL",
    "Floating point exception": "SIGFPE",
}
_THREAD = re.compile(
    r"(?P<current>Current )?[Tt]hread (?P<id>0x[0-9a-f]+)(?: \[(?P<name>[^\]]*)\])? ?(?:\(most recent call first\))?:?$"
)
_TERMINATE = re.compile(r"terminate called (?:after throwing an instance of '(?P<type>[^']+)'|(?P<bare>.*))")
#: the kernel's return address for signal handlers: below it lies the frame that faulted
_TRAMPOLINE = re.compile(r"sigaction|sigreturn")
_WHAT = re.compile(r"\s*what\(\): +(?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack of one Python thread, outermost frame first."""

    thread: str
    current: bool
    frames: tuple[Frame, ...]


def is_crash_start(view: str) -> bool:
    return view.startswith(CRASH_HEADS) or shell_crash(view) is not None


def read_crash(lines: Sequence[Line], start: int, artifact: str | None, user: User) -> tuple[ErrorRecord | None, int]:
    view = lines[start].view
    if view.startswith("!!!!!!! "):
        frames, at = _frames(lines, start + 1, user)
        frames = tuple(f for f in frames if not _TRAMPOLINE.search(f.file))
        signal = "SIGSEGV" if "Segfault" in view else ""
        return _record("signal", signal, view.strip("! "), frames, lines[start], artifact), at
    if view.startswith("Fatal Python error: "):
        what = view.removeprefix("Fatal Python error: ")
        stacks, at = _stacks(lines, start + 1, user)
        signal = _SIGNALS.get(what.strip(), "")
        kind = "signal" if signal else "exception"
        return _record(kind, signal or "Fatal Python error", what, _main(stacks), lines[start], artifact), at
    if view.startswith("Timeout ("):
        stacks, at = _stacks(lines, start + 1, user)
        if not stacks:
            return None, start + 1
        return _record("timeout", "Timeout", view, _main(stacks), lines[start], artifact), at
    if view.startswith("terminate called "):
        return _read_terminate(lines, start, artifact)
    what_died = shell_crash(view)
    if what_died is not None:
        return _record("signal", _SIGNALS[what_died], what_died, (), lines[start], artifact), start + 1
    _, at = _stacks(lines, start, user)  # stacks alone say where threads are, not that something failed
    return None, max(at, start + 1)


def read_stacks(lines: Sequence[Line], user: User) -> tuple[Stack, ...]:
    """Every thread's stack in a faulthandler dump (`dump_traceback`, a signal registered with it, or a crash)."""
    crashed = bool(lines) and lines[0].view.startswith("Fatal Python error: ")
    stacks, _ = _stacks(lines, int(crashed), user)
    return tuple(stacks)


def _record(
    kind: str, type_: str, message: str, frames: tuple[Frame, ...], line: Line, artifact: str | None
) -> ErrorRecord:
    return ErrorRecord(kind=kind, type=type_, message=message, frames=frames, quote=quote(line, artifact))


def _read_terminate(lines: Sequence[Line], start: int, artifact: str | None) -> tuple[ErrorRecord, int]:
    match = _TERMINATE.match(lines[start].view)
    at = start + 1
    message = (match["bare"] if match else None) or ""
    line = lines[start]
    if at < len(lines) and (what := _WHAT.match(lines[at].view)):
        message, line = what["text"], lines[at]
        at += 1
    type_ = (match["type"] if match else None) or "terminate"
    return _record("signal", type_, message, (), line, artifact), at


def _frames(lines: Sequence[Line], at: int, user: User) -> tuple[tuple[Frame, ...], int]:
    """Frame lines from `at` on, given innermost first; returned outermost first."""
    frames: list[Frame] = []
    while at < len(lines):
        parsed = frame_line(lines[at].view)
        if parsed is None:
            if not frames or not lines[at].view.lstrip().startswith(("...", "<no Python frame>", "<truncated")):
                break
        else:
            frames.append(make_frame(parsed, "", user))
        at += 1
    return tuple(reversed(frames)), at


def _stacks(lines: Sequence[Line], at: int, user: User) -> tuple[list[Stack], int]:
    stacks: list[Stack] = []
    while at < len(lines):
        view = lines[at].view
        match = _THREAD.match(view)
        if match is not None:
            frames, after = _frames(lines, at + 1, user)
            stacks.append(Stack(match["name"] or match["id"], match["current"] is not None, frames))
            at = after
        elif view.startswith("Stack (most recent call first)"):
            frames, at = _frames(lines, at + 1, user)
            stacks.append(Stack("main", True, frames))
        elif frame_line(view) is not None and not stacks:  # pasted without the line that names the thread
            frames, at = _frames(lines, at, user)
            stacks.append(Stack("main", True, frames))
        elif (
            not view.strip(" .…")
            or view.lstrip().startswith("<no Python frame>")
            or view.startswith(("Extension modules:", "Python runtime state"))
        ):
            at += 1
        else:
            break
    return stacks, at


def _main(stacks: list[Stack]) -> tuple[Frame, ...]:
    current = next((s for s in stacks if s.current), None)
    if current is not None:
        return current.frames
    return stacks[-1].frames if stacks else ()
