"""Errors the harness saw, completed with where their text was printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from triage.model import ErrorRecord, Quote, from_json
from triage.readers.blocks import TRACEBACK
from triage.readers.compiler import COMPILER_OUTPUT, compiler_causes
from triage.readers.frames import User
from triage.readers.lines import Line, clean
from triage.readers.messages import mentions, spans
from triage.readers.output import Reading
from triage.readers.traceback import Source, read_chain


def _unknown(_: str) -> bool | None:
    return None


def from_event(event: Mapping[str, Any], readings: Sequence[Reading] = (), user: User = _unknown) -> ErrorRecord:
    """The error of an `error` event (blobs already put back), with quotes, named lines and mentions filled in.

    `readings` are those of standard error and standard output, in the order to search them. An error whose text was
    printed nowhere keeps a quote without artifact and line. Raises `ValueError` if the event holds no error record.
    """
    data = event.get("error")
    try:
        error = from_json(ErrorRecord, data)
    except (TypeError, ValueError) as failure:
        raise ValueError(f"event holds no error record: {failure}") from failure
    handled = bool(event.get("handled", error.handled))
    kernel = error.kernel or event.get("kernel")
    completed = _complete(error, readings, user)
    causes = tuple(replace(c, handled=handled, kernel=c.kernel or kernel) for c in completed.causes)
    return replace(
        completed, handled=handled, kernel=kernel, phase=error.phase or event.get("phase"), causes=causes,
        regardless=bool(event.get("regardless", error.regardless)),
        on_made_up=bool(event.get("on_made_up", error.on_made_up)),
    )  # fmt: skip


def _complete(error: ErrorRecord, readings: Sequence[Reading], user: User) -> ErrorRecord:
    views = error.message.split("\n")
    compiled = COMPILER_OUTPUT.search(error.message) is not None
    lines = [Line(n, view, clean(view)) for n, view in enumerate(views, 1)]
    found: tuple[ErrorRecord, ...] = ()
    if compiled and not any(c.kind == "compiler" for c in error.causes):
        found = compiler_causes(lines, None, user) or _printed_compiler_errors(error, readings)
    elif TRACEBACK in error.message:
        found = _embedded(lines, user)
    inner = tuple(replace(c, quote=_locate(c.quote, readings), origin="event") for c in found)
    return replace(
        error,
        quote=error.quote if error.quote and error.quote.line else _first_line(error, readings),
        named=error.named or spans(views, user),
        mentions=error.mentions or (() if compiled else mentions(error.message)),
        causes=(*inner, *(_complete(c, readings, user) for c in error.causes)),
        origin="event",
    )


def _embedded(lines: Sequence[Line], user: User) -> tuple[ErrorRecord, ...]:
    """The error of another process, which travels as the text of its traceback (worker pools, spawned processes)."""
    start = next((at for at, line in enumerate(lines) if line.view.startswith(TRACEBACK)), None)
    if start is None:
        return ()
    record, _ = read_chain(lines, start, Source(None, user))
    return (replace(record, relation="inner"),) if record is not None and record.type else ()


def _printed_compiler_errors(error: ErrorRecord, readings: Sequence[Reading]) -> tuple[ErrorRecord, ...]:
    """What the compiler wrote to the stream itself, where the exception only has the source (cython backend)."""
    for reading in readings:
        for seen in reading.errors:
            if seen.message.partition("\n")[0] == error.message.partition("\n")[0]:
                own = tuple(c for c in seen.causes if c.kind == "compiler")
                if own:
                    return own
    loose = [seen for reading in readings for seen in reading.errors if seen.kind == "compiler"]
    return tuple(replace(seen, relation="inner") for seen in loose[:1])


def _locate(quote: Quote | None, readings: Sequence[Reading]) -> Quote | None:
    if quote is None or (quote.artifact and quote.line):
        return quote
    return _search(lambda reading: reading.find(quote.text), readings) or Quote(quote.text)


def _first_line(error: ErrorRecord, readings: Sequence[Reading]) -> Quote:
    """The line that names the exception; failing that, the first line of its message, wherever it was printed."""
    first = error.message.partition("\n")[0]
    full = f"{error.type}: {first}" if first else error.type

    def of_reading(reading: Reading) -> Quote | None:
        for seen in _flat(reading.errors):
            same_type = seen.type.rpartition(".")[2] == error.type.rpartition(".")[2]
            if (
                (same_type or seen.kind == "check")
                and seen.message.partition("\n")[0].strip() == first.strip()
                and seen.quote
            ):
                return seen.quote
        return reading.find(full) or reading.find(first)

    return _search(of_reading, readings) or Quote(full)


def _flat(errors: Sequence[ErrorRecord]) -> list[ErrorRecord]:
    return [one for error in errors for one in (error, *_flat(error.causes))]


def _search(look: Callable[[Reading], Quote | None], readings: Sequence[Reading]) -> Quote | None:
    return next((found for found in map(look, readings) if found is not None), None)
