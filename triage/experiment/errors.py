"""The errors of a finished run: those the harness saw, else what it printed or how it was stopped.

An exception that the harness saw is surer than text: text readings fill in where the process ended without telling
(a crash inside the compiler, a kill), and give every record its verbatim quote. How the process ended is an error of its
own where no exception explains it: a signal, a time-out, a limit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triage.experiment.comparisons import comparison_of
from triage.experiment.events import Event, EventReader, final, read_json
from triage.experiment.kernels import Kernel, blob_of
from triage.model import ErrorRecord, Frame, Location, WarningRecord
from triage.readers import Reading, decisive, from_event, read_output, read_stacks, split_lines

#: origin of the warnings in which the harness says what it could not record
OWN = "triage"


@dataclass(frozen=True)
class Observed:
    """A finished run as it lies on disk, and what was asked of it.

    `blob` gives the content of a blob by its SHA-256. `timeout` is in seconds.
    """

    directory: Path
    events: Sequence[Event]
    kernels: Sequence[Kernel]
    blob: Callable[[str], bytes]
    script: str = ""
    timeout: float = 0.0
    python: str = ""

    def readings(self) -> dict[str, Reading]:
        """Both outputs, read."""
        users = users_of(self.events)
        return {name: read_stream(self.directory / name, users) for name in ("stderr", "stdout")}


def errors_of(run: Observed, readings: Mapping[str, Reading]) -> list[ErrorRecord]:
    """Every error once, in the order of their time; the last that is not recovered or stubbed ended the script."""
    users = users_of(run.events)
    errors = [
        replace(
            from_event(event, tuple(readings.values()), users),
            suspect=event.get("suspect"),
            stubbed=bool(event.get("stubbed")),
            comparison=comparison_of(event, run.events, run.kernels, run.blob),
        )
        for event in error_events(run.events, run.blob)
    ]
    errors = mark_recovered(without_echoes(errors), run.kernels)
    if all(error.recovered or error.stubbed for error in errors):
        errors += how_it_died(run, readings)
    return without_bare_exit(errors)


def warnings_of(events: Sequence[Mapping[str, Any]], readings: Mapping[str, Reading]) -> list[WarningRecord]:
    """Warnings of Python (as events) and of the compiler (as text), each once."""
    found = [
        WarningRecord(str(e.get("text")), str(e.get("origin")), location(e.get("at")))
        for e in events
        if e["type"] == "warning" and e.get("origin") != OWN
    ]
    told = {w.text for w in found}
    for reading in readings.values():
        found += [w for w in reading.warnings if not any(w.text in text or text in w.text for text in told)]
    return list(dict.fromkeys(found))


def read_events(directory: Path) -> list[dict[str, Any]]:
    """The events of a finished run, read again from its step folder."""
    return final(EventReader(directory).finish()[0])


def read_exit(directory: Path) -> dict[str, Any]:
    """`exit.json` of a finished run; empty where there is none."""
    return read_json(directory / "exit.json")


def greeted(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the harness started in the user's interpreter."""
    return any(e["type"] == "hello" for e in events)


def silent_interpreter(python: str) -> ErrorRecord:
    """The error of a run in which the harness never said hello: the interpreter did not run the script at all."""
    message = (
        f"{python or sys.executable} ended without having run the script: it is no Python interpreter, or a broken one"
    )
    return ErrorRecord("exception", "InterpreterError", message, phase="install", stage="install", origin="event")


def error_events(events: Sequence[Mapping[str, Any]], blob: Callable[[str], bytes]) -> list[dict[str, Any]]:
    """The `error` events that hold a readable record, with records kept as blobs put back."""
    found = []
    for event in events:
        if event["type"] != "error":
            continue
        data = event.get("error")
        sha = blob_of(data) if isinstance(data, dict) and set(data) == {"blob"} else None
        if sha is not None:
            data = json.loads(blob(sha))
        if isinstance(data, dict):
            found.append({**event, "error": data})
    return found


def read_stream(path: Path, users: Callable[[str], bool | None]) -> Reading:
    """One kept output stream; `users` tells whose file a frame is in."""
    return read_output(_text(path), path.name, users)


def users_of(events: Sequence[Mapping[str, Any]]) -> Callable[[str], bool | None]:
    """Whose file it is: the user's where an event says so, unknown otherwise. Places of events are in no other files."""
    places = [e[key] for e in events for key in ("defined_at", "called_at", "at") if isinstance(e.get(key), dict)]
    known = frozenset(str(p.get("file")) for p in places)
    return lambda file: True if os.path.abspath(file) in known else None


def without_echoes(errors: Sequence[ErrorRecord]) -> list[ErrorRecord]:
    """One record, the last, of an error that was seen on its way: a Python exception that crosses C++ comes out as
    another object, so the one inside and the one that ended a build or the script are the same only by what they say."""
    out: list[ErrorRecord] = []
    for error in errors:
        said = _said(error)
        first = next((e for e in out if e.handled and _one_build(e, error) and _said(e) == said), None)
        if first is None or (first.kernel is None and error.kernel is None and error.handled):
            out.append(error)
            continue
        out.remove(first)
        out.append(
            replace(
                error,
                kernel=error.kernel or first.kernel,
                phase=error.phase or first.phase,
                stage=error.stage or first.stage,
                pass_name=error.pass_name or first.pass_name,
            )
        )
    return out


def _one_build(first: ErrorRecord, later: ErrorRecord) -> bool:
    return None in (first.kernel, later.kernel) or first.kernel == later.kernel


def _said(error: ErrorRecord) -> tuple[str, str]:
    one = decisive(error)
    return one.type, one.message


def mark_recovered(errors: Sequence[ErrorRecord], kernels: Sequence[Kernel]) -> list[ErrorRecord]:
    """Caught errors of a kernel that was built afterwards (an autotuner's other configuration, a fallback)."""
    order = {kernel.id: number for number, kernel in enumerate(kernels)}
    built = [
        (number, (k.defined_at.file, k.name))
        for number, k in enumerate(kernels)
        if k.compiled and not k.failed and k.defined_at is not None
    ]

    def names(error: ErrorRecord) -> tuple[int, set[tuple[str, str]]]:
        """From which kernel on a later success counts, and by which (file, function) it is known."""
        failed = next((k for k in kernels if k.id == error.kernel), None)
        if failed is not None and failed.defined_at is not None:
            return order[failed.id] + 1, {(failed.defined_at.file, failed.name)}
        return 0, {(frame.file, frame.function) for frame in error.frames if frame.user}

    marked = []
    for error in errors:
        since, known = names(error) if error.handled else (0, set())
        again = any(number >= since and name in known for number, name in built)
        marked.append(replace(error, recovered=True) if again else error)
    return marked


def without_bare_exit(errors: Sequence[ErrorRecord]) -> list[ErrorRecord]:
    """`sys.exit(1)` after an error that the script caught only passes that error on: the error is what to look at."""
    others = [e for e in errors if e.type != "SystemExit"]
    return others if any(not (e.recovered or e.stubbed) for e in others) else list(errors)


def how_it_died(run: Observed, readings: Mapping[str, Reading]) -> list[ErrorRecord]:
    """The error of a process that did not end by an exception: what it printed last, or how it was stopped."""
    ended = read_exit(run.directory)
    status = ended.get("status", "killed")
    if not greeted(run.events) and status in ("succeeded", "failed"):
        return [silent_interpreter(run.python)]
    if status == "succeeded":
        return []
    phase, kernel = unfinished(run.events)
    frames = _launched_from(run.events) + _interrupted_frames(_text(run.directory / "stacks.txt"), run.script)
    if status == "timed_out":
        message = f"no end after {run.timeout:g} s" + (f", while in phase {phase}" if phase else "")
        return [ErrorRecord("timeout", "Timeout", message, frames, phase, kernel=kernel, origin="event")]
    if status == "killed":
        reason = str(ended.get("reason") or "an unknown cause")
        message = f"killed: {reason}" + (f", while in phase {phase}" if phase else "")
        return [ErrorRecord("signal", "Killed", message, frames, phase, kernel=kernel, origin="event")]
    number = ended.get("signal")
    if isinstance(number, int):
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        message = f"{name}" + (f" in phase {phase}" if phase else "")
        printed = tuple(e for e in readings["stderr"].errors if e.kind in ("signal", "exception"))[-1:]
        return [ErrorRecord("signal", name, message, frames, phase, causes=printed, kernel=kernel, origin="event")]
    printed = (*readings["stdout"].errors, *readings["stderr"].errors)[-1:]
    if printed:
        return list(printed)
    code = ended.get("code")
    message = f"exit status {code}, and nothing was printed that says why"
    return [ErrorRecord("exception", "SystemExit", message, (), phase, kernel=kernel, origin="event")]


def unfinished(events: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """Phase and kernel of the last `*.begin` without its `.end`: what the process was doing when it died."""
    open_: list[tuple[str, str | None]] = []
    for event in events:
        kind, _, edge = str(event["type"]).partition(".")
        if kind not in ("compile", "launch") or edge not in ("begin", "end"):
            continue
        phase = str(event.get("phase")) if kind == "compile" else "launch"
        if edge == "begin":
            open_.append((phase, event.get("kernel")))
        elif open_:
            open_.pop()
    return open_[-1] if open_ else (None, None)


def _launched_from(events: Sequence[Mapping[str, Any]]) -> tuple[Frame, ...]:
    """The user's call of the launch that did not end: a crash in native code has no frame of its own there."""
    begun = [e for e in events if e["type"] in ("launch.begin", "launch.end")]
    at = begun[-1].get("at") if begun and begun[-1]["type"] == "launch.begin" else None
    place = location(at)
    return (Frame(place.file, place.line, user=True),) if place else ()


def _interrupted_frames(dump: str, script: str) -> tuple[Frame, ...]:
    """The stack that was running when a signal came: the current thread's, else the first that is in a user's file."""
    home = os.path.dirname(script) + os.sep if script else None

    def user(file: str) -> bool | None:
        if home is None:
            return None
        return os.path.abspath(file).startswith(home) and "site-packages" not in file

    stacks = read_stacks(split_lines(dump), user)
    chosen = next((s for s in stacks if s.current), None)
    chosen = chosen or next((s for s in stacks if any(f.user for f in s.frames)), None)
    return chosen.frames if chosen else ()


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


def location(at: Any) -> Location | None:
    """The place of an event as a location."""
    if isinstance(at, dict) and isinstance(at.get("file"), str) and isinstance(at.get("line"), int):
        return Location(at["file"], at["line"])
    return None
