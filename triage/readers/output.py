"""Read the output of a run: one pass over its lines, each handed to the reader whose first line it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from triage.model import ErrorRecord, Quote, WarningRecord
from triage.readers.blocks import PREAMBLE, starts_block
from triage.readers.compiler import (
    COMPILER_OUTPUT,
    ERROR_LIMIT,
    Diagnostic,
    diagnostic,
    error_record,
    is_output_line,
    read_diagnostics,
)
from triage.readers.crash import is_crash_start, read_crash
from triage.readers.frames import User
from triage.readers.lines import Line, quote, split_lines
from triage.readers.others import name_printers
from triage.readers.pasted import read_pasted
from triage.readers.pytest_output import is_failure_start, read_failure
from triage.readers.tool_lines import read_tool_line
from triage.readers.traceback import Source, is_traceback_start, read_chain
from triage.readers.warning import is_log_start, read_log, read_python_warning


@dataclass(frozen=True)
class Reading:
    """What one stream says. Records stand in the order of their first line; chains are folded into `causes`."""

    artifact: str
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[WarningRecord, ...] = ()
    lines: tuple[Line, ...] = field(default=(), repr=False)

    @cached_property
    def _places(self) -> dict[str, Line]:
        places: dict[str, Line] = {}
        for line in self.lines:
            places.setdefault(line.view.strip(), line)
        return places

    def find(self, text: str) -> Quote | None:
        """The first line that shows exactly `text` (blanks around it aside); None if none does or `text` is blank."""
        wanted = text.strip()
        line = self._places.get(wanted) if wanted else None
        return quote(line, self.artifact) if line else None


def read_output(text: str, artifact: str, user: User) -> Reading:
    """Read everything in `text`: a whole standard output, standard error, or a log with both.

    `user` says whether a file is the user's (None: nobody knows). Any text is accepted: cut, binary, endless lines.
    Work grows linearly with its length. Records have `origin="text"`: the text may also be what a script printed on
    purpose; only an event of the harness knows.
    """
    lines = split_lines(text)
    source = Source(artifact, user)
    errors: list[ErrorRecord] = []
    warnings: list[WarningRecord] = []
    compiler: list[Line] = []  # compiler output on the stream itself, not yet claimed by an exception
    at = 0
    while at < len(lines):
        view = lines[at].view
        if not view:
            at += 1
            continue
        if diagnostic(lines[at]) is not None or is_output_line(view):
            at = _collect_compiler(lines, at, compiler)
        elif is_traceback_start(view):
            record, after = read_chain(lines, at, source)
            _add_exception(errors, record, compiler, lines, at, source)
            at = max(after, at + 1)
        elif is_log_start(view):
            found, after = read_log(lines, at, artifact, user)
            if isinstance(found, WarningRecord):
                warnings.append(found)
            elif found is not None:
                errors.append(found)
            at = max(after, at + 1)
        elif is_failure_start(view):
            failure, at = read_failure(lines, at, artifact, user)
            errors += [failure] if failure else []
        elif is_crash_start(view):
            crash, at = read_crash(lines, at, artifact, user)
            _add_crash(errors, crash)
        else:
            at = _read_single(lines, at, source, errors, warnings)
    _flush_compiler(errors, compiler, source)
    if not any(
        error.type for error in errors
    ):  # of a cut traceback the last line may stand elsewhere, in a title or in prose
        errors += [found for found in read_pasted(lines, source) if found.type or not errors]
    errors = name_printers(errors, lines)
    errors.sort(key=_position)
    return Reading(artifact, tuple(errors), tuple(warnings), tuple(lines))


def _position(record: ErrorRecord) -> int:
    quotes = [r.quote.line or 0 for r in (record, *record.causes) if r.quote]
    return min(quotes, default=0)


def _collect_compiler(lines: list[Line], at: int, compiler: list[Line]) -> int:
    compiler.append(lines[at])
    at += 1
    while at < len(lines) and lines[at].view and not _other_block(lines[at].view):
        compiler.append(lines[at])
        at += 1
    compiler.append(Line(lines[at - 1].number, "", ""))  # an empty line closes the diagnostic
    return at


def _other_block(view: str) -> bool:
    return is_traceback_start(view) or starts_block(view)


def _add_exception(
    errors: list[ErrorRecord],
    record: ErrorRecord | None,
    compiler: list[Line],
    lines: list[Line],
    at: int,
    source: Source,
) -> None:
    if record is None:
        return
    if at > 0 and PREAMBLE.match(lines[at - 1].view):
        record = replace(record, handled=True)  # in a destructor or a thread: the program went on
    if COMPILER_OUTPUT.match(record.message) and compiler:
        # The cython backend lets the compiler write to the stream itself and raises afterwards.
        own = [d for d in read_diagnostics(compiler) if d.is_error]
        claimed = tuple(error_record(d, source.artifact, source.user, relation="inner") for d in own[:ERROR_LIMIT])
        compiler.clear()
        record = replace(record, causes=(*claimed, *record.causes))
    if errors and errors[-1].kind == "check" and _headline(errors[-1]) == _headline(record):
        errors.pop()  # `LOG(FATAL)` logs what it throws: one fault, told twice
    errors.append(record)


def _headline(error: ErrorRecord) -> str:
    return error.message.partition("\n")[0].strip()


def _add_crash(errors: list[ErrorRecord], crash: ErrorRecord | None) -> None:
    if crash is None:
        return
    last = errors[-1] if errors else None
    if (
        last is not None
        and last.kind == "signal"
        and (last.type == crash.type or crash.type == "SIGABRT")
        and not crash.frames
    ):
        return  # the shell's line about a death that was already told
    errors.append(crash)


def _read_single(
    lines: list[Line], at: int, source: Source, errors: list[ErrorRecord], warnings: list[WarningRecord]
) -> int:
    warning, after = read_python_warning(lines, at, source.artifact, source.user)
    if warning is not None:
        warnings.append(warning)
        return after
    error = read_tool_line(lines[at], source.artifact)
    if error is not None and not (errors and _repeats(errors[-1], error)):
        errors.append(error)
    return at + 1


def _repeats(last: ErrorRecord, error: ErrorRecord) -> bool:
    """Every thread of a failing block reports its device assertion."""
    return (last.kind, last.type, last.message) == (error.kind, error.type, error.message)


def _flush_compiler(errors: list[ErrorRecord], compiler: list[Line], source: Source) -> None:
    """Compiler errors that no exception followed: the first, with the others as its causes."""
    found: list[Diagnostic] = [d for d in read_diagnostics(compiler) if d.is_error]
    if not found:
        return
    records = [error_record(d, source.artifact, source.user) for d in found[:ERROR_LIMIT]]
    rest = tuple(replace(r, relation="inner") for r in records[1:])
    errors.append(replace(records[0], causes=rest))
