"""The fixtures beside a rule: `hit-*` that it must match, `miss-*` that it must not though they look alike.

A `.log` is real output. In a hit the decisive line may be followed by a mark, which is taken out before the log is read:

    AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 128
    #^ TLG014 k_a=32 k_b=128

It says that the match lies in the line above and captured at least these values. A `.json` holds recorded records, for
what has no text: an object `{"on", "data", "about"?, "facts"?}` or a list of them, `data` as `model.to_json` writes an error, a
warning or a kernel, or a lint its hazard.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triage.knowledge.files import FileError, KnowledgeError, read_text
from triage.knowledge.match import (
    Record,
    Trial,
    record_of_error,
    record_of_hazard,
    record_of_kernel,
    record_of_warning,
    records_of_output_line,
    search,
    try_rule,
    typed,
)
from triage.knowledge.rule import Problem, Rule
from triage.model import ErrorRecord, Frame, KernelRecord, WarningRecord, from_json

#: The frame of a library that nobody knows, which raises the words of somebody else.
OTHER_LIBRARY = Frame(
    "/home/user/venv/lib/python3.11/site-packages/planner/verify.py",
    8,
    "verify",
    "raise error",
    user=False,
    raises=True,
)

#: Turns a log into records: text and a name for it in, records out. The readers do it; this package does not know them.
Read = Callable[[str, str], Sequence[Record]]
MARK = "#^ "
SUFFIXES = (".log", ".json")
#: Hits that are no output of a real run: what the check in upstream's source prints, with operands filled in.
FROM_SOURCE = "hit-source-"


class FixtureError(KnowledgeError):
    """A fixture cannot be read: which one, and as far as that can be said at which line."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _Unfit(ValueError):
    """Why a text is no fixture, and at which line of it; whoever knows the file makes it a `FixtureError`."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True)
class Mark:
    """What a hit says about its line (counted from 1, marks taken out): the code and some of the captures.

    `at` is the line of the mark itself in the file.
    """

    code: str
    line: int
    at: int
    captures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fixture:
    path: Path
    hit: bool
    text: str
    marks: tuple[Mark, ...]
    records: tuple[tuple[Record, Mapping[str, Any]], ...]
    """Each record with the facts that were known about it."""

    @property
    def name(self) -> str:
        return name_of(self.path)

    @property
    def from_source(self) -> bool:
        """Whether it is written from the check in upstream's source, for a place that no machine at hand reaches."""
        return self.path.name.startswith(FROM_SOURCE)

    def facts_of(self, record: Record) -> Mapping[str, Any]:
        """The facts that were known about one of its records."""
        return next((facts for one, facts in self.records if one is record), {})

    def trials(self, rule: Rule) -> list[tuple[Record, Trial]]:
        """The records that the rule matches."""
        tries = [(record, try_rule(rule, record, facts)) for record, facts in self.records]
        return [(record, trial) for record, trial in tries if trial.matched]


def fixture_paths(rule: Rule) -> list[Path]:
    """The `hit-*` and `miss-*` files beside a rule."""
    folder = rule.fixtures
    if folder is None or not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.name.startswith(("hit-", "miss-")) and p.suffix in SUFFIXES)


def read_fixture(path: Path, read: Read) -> Fixture:
    """Read one fixture. Raises `FixtureError`."""
    raw = fixture_text(path)
    hit = path.name.startswith("hit-")
    try:
        if path.suffix == ".json":
            return Fixture(path, hit, "", (), tuple(_recorded(raw)))
        text, marks = take_marks(raw)
    except _Unfit as error:
        raise FixtureError(Problem(name_of(path), error.line, str(error))) from None
    return Fixture(path, hit, text, tuple(marks), tuple((record, {}) for record in read(text, path.name)))


def fixture_text(path: Path) -> str:
    """The text of a fixture as the file has it, marks and all. Raises `FixtureError`."""
    try:
        return read_text(path)
    except FileError as error:
        raise FixtureError(Problem(name_of(path), error.line, error.why)) from None


def lines_of(text: str) -> list[str]:
    """The lines with their ends. Only a line feed ends one, as readers count them: a progress bar is one line."""
    return list(io.StringIO(text, newline="\n"))


def name_of(path: Path) -> str:
    """A fixture as problems name it: its file, with the folder of its rule."""
    return f"{path.parent.name}/{path.name}"


def take_marks(raw: str) -> tuple[str, list[Mark]]:
    """The text without its marks, and the marks. Raises `ValueError` for a mark that is none."""
    kept: list[str] = []
    marks = []
    for number, line in enumerate(lines_of(raw), 1):
        if line.startswith(MARK):
            marks.append(_mark(line, len(kept), number))
        else:
            kept.append(line)
    return "".join(kept), marks


def _mark(line: str, above: int, at: int) -> Mark:
    try:
        code, *pairs = shlex.split(line[len(MARK) :])
        captures = {name: typed(value) for name, value in (pair.split("=", 1) for pair in pairs)}
    except ValueError as error:
        raise _Unfit(f"not a mark: {line.strip()!r} ({error})", at) from None
    if above == 0:
        raise _Unfit("a mark stands below the line it is about", at)
    return Mark(code, above, at, captures)


def _recorded(raw: str) -> list[tuple[Record, Mapping[str, Any]]]:
    try:
        data = json.loads(raw)
        entries = data if isinstance(data, list) else [data]
        return [(_record(entry), _facts(entry)) for entry in entries]
    except _Unfit:
        raise
    except json.JSONDecodeError as error:
        raise _Unfit(f"not JSON: {error}", error.lineno) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _Unfit(f"not recorded records: {type(error).__name__}: {error}") from None


def _facts(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    facts = entry.get("facts", {})
    if not isinstance(facts, dict):
        raise _Unfit("facts must be an object")
    return facts


def _record(entry: Mapping[str, Any]) -> Record:
    on, data, about = entry["on"], entry["data"], entry.get("about", "run")
    match on:
        case "error":
            record = record_of_error(from_json(ErrorRecord, data))
        case "warning":
            record = record_of_warning(from_json(WarningRecord, data))
        case "kernel":
            record = record_of_kernel(from_json(KernelRecord, data))
        case "hazard":
            record = record_of_hazard(data)
        case "log":
            record = records_of_output_line(data)[0]
        case _:
            raise _Unfit(f"no fixture can hold a record on {on!r}")
    return replace(record, about=about)


def mark_problems(fixture: Fixture, rule: Rule, trials: Sequence[tuple[Record, Trial]]) -> list[tuple[int, str]]:
    """What the marks of a hit say and the match does not do, with the line of the mark in the file."""
    problems = []
    lines = lines_of(fixture.text)
    for mark in fixture.marks:
        if mark.code != rule.code:
            problems.append((mark.at, f"marks {mark.code} beside {rule.code}"))
            continue
        if not any(_lies_in(rule, record, lines[mark.line - 1], mark.line) for record, _ in trials):
            problems.append((mark.at, f"line {mark.line} is marked, but the match lies elsewhere"))
        for name, value in mark.captures.items():
            seen = [trial.captures.get(name) for _, trial in trials]
            if value not in seen:
                problems.append((mark.at, f"{name} is marked {value!r}, but captured was {seen[0]!r}"))
    return problems


def said_elsewhere(record: Record) -> Record | None:
    """The same words as another library would raise them, in which no rule may see an error of tilelang; None if the record is
    no error."""
    error = record.error
    if error is None:
        return None
    forged = replace(
        error, kind="exception", type=error.type or "RuntimeError", frames=(*error.frames, OTHER_LIBRARY), causes=()
    )
    return replace(record_of_error(forged), about=record.about)


def _lies_in(rule: Rule, record: Record, line: str, number: int) -> bool:
    """Whether the matched text, of which only the first line counts, stands in this line, or the error was read in it."""
    first = _first_line(rule, record)
    quote = record.error.quote if record.error else None
    return first is not None and (first in line or bool(quote and quote.line == number))


def _first_line(rule: Rule, record: Record) -> str | None:
    found = search(rule.match.text or "", record.text or "")
    return found[0].strip().split("\n")[0] if found else None


def blessed(fixture: Fixture, rule: Rule, trials: Sequence[tuple[Record, Trial]]) -> str:
    """The text of a hit with a mark below the first line of every match; of one that stands in none, below the line
    in which its error was read."""
    lines = lines_of(fixture.text)
    marks: dict[int, str] = {}
    for record, trial in trials:
        first = _first_line(rule, record)
        place = next((n for n, line in enumerate(lines) if first and first in line and n not in marks), None)
        if place is None and record.error and record.error.quote and record.error.quote.line:
            place = record.error.quote.line - 1  # what a reader makes of a line may not stand in it
        if place is not None:
            values = (f"{name}={value}" for name, value in trial.captures.items() if "\n" not in str(value))
            marks[place] = MARK + " ".join([rule.code, *map(shlex.quote, values)]) + "\n"
    parts = []
    for number, line in enumerate(lines):
        ended = line if line.endswith("\n") or number not in marks else line + "\n"
        parts += [ended, marks.get(number, "")]
    return "".join(parts)
