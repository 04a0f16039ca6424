"""Records, and whether a rule matches one: three-valued, with typed captures. Pure.

A trial ends in one of four ways. `MATCH`: everything the rule asks was seen. `UNOBSERVED`: everything that could be
seen agrees, but the raising frame, which the rule names, could not be seen (bare text). `MISS`: something disagrees.
`TIMED_OUT`: the expression took too long on this text, so nothing is known.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import regex

from triage import conditions
from triage.knowledge.rule import Rule
from triage.model import (
    ErrorRecord,
    FoundBy,
    Frame,
    KernelRecord,
    Label,
    Location,
    Place,
    WarningRecord,
    from_json,
    to_json,
)

#: Seconds one search may take. Rules are checked to be linear; this only guards against one that is not.
SEARCH_TIMEOUT = 2.0
#: Characters of a record's text that are searched, from both ends: a decisive line inside a longer text is found by
#: the readers, which hand in lines, so nothing legitimate is longer.
TEXT_LIMIT = 200_000
#: `raised_in` entry for errors that Python raises in the user's own line.
USER = "user"
#: Longer digits are an address or a hash more often than a number.
INTEGER = regex.compile(r"[+-]?[0-9]{1,18}")
FLOAT = regex.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]{1,3})?")
#: C++ functions that throw what somebody else found.
CARRIER = regex.compile(
    r"tvm::runtime::detail::LogFatal|tvm::ffi::SeqBaseObj::operator\[\]|tvm::ffi::details::ErrorBuilder|TVMFFI"
)
#: Files of frames that tell nothing; `<string>` and `<stdin>` are not among them: that is code somebody handed to Python.
NOWHERE = ("", "<unknown>")


class Outcome(StrEnum):
    MATCH = "match"
    UNOBSERVED = "unobserved"
    MISS = "miss"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True)
class Record:
    """One thing a rule can match. `fields` has dotted names (`error.type`, `hazard.kind`)."""

    on: str
    fields: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    error: ErrorRecord | None = None
    warning: WarningRecord | None = None
    about: str = "run"
    #: the outermost error of the chain of causes this error is in
    outer: ErrorRecord | None = None
    #: where the record itself says it is: a warning's line, a lint's statement; of an error, where its kernel is defined
    at: Location | None = None
    labels: tuple[Label, ...] = ()
    #: False where whoever made the record says that something it could not see may speak against it
    certain: bool = True


@dataclass(frozen=True)
class Trial:
    outcome: Outcome
    captures: dict[str, Any] = field(default_factory=dict)
    #: what decided, with the observed values
    why: str = ""

    @property
    def matched(self) -> bool:
        return self.outcome in (Outcome.MATCH, Outcome.UNOBSERVED)


def record_of_error(error: ErrorRecord, stage: str | None = None) -> Record:
    """The record of one error alone; `stage` overrides what the error says of itself."""
    fields = {
        "error.type": error.type,
        "error.kind": error.kind,
        "error.phase": error.phase,
        "error.stage": stage or error.stage,
        "error.pass": error.pass_name,
        "error.handled": error.handled,
        "error.origin": error.origin,
        "error.message": error.message,
        "error.shadows": shadowed_module(error),
    }
    about = f"kernel:{error.kernel}" if error.kernel else "run"
    return Record("error", _present(fields), text_of_error(error), error=error, about=about)


def records_of_error(error: ErrorRecord, stage: str | None = None, decides: ErrorRecord | None = None) -> list[Record]:
    """The error and all errors behind it as one chain: the one that decides first, then from the outermost inwards.

    `decides` is the record of the chain that says why (`error` itself if not given), `stage` that of the decisive one.
    What was merely being handled when an error came (`relation == "context"`) is not certain to matter, unless it decides.
    """
    first = decides or error
    about = f"kernel:{error.kernel}" if error.kernel else "run"
    found: list[Record] = []
    waiting = deque([(error, True)])
    while waiting:
        one, certain = waiting.popleft()
        record = record_of_error(one, stage if one is first else None)
        found.append(replace(record, about=about, outer=error, certain=certain or one is first))
        waiting += [(cause, certain and cause.relation != "context") for cause in one.causes]
    return sorted(found, key=lambda record: record.error is not first)


def text_of_error(error: ErrorRecord) -> str:
    """Type and message as Python prints them, which is what `text` of a rule is searched in."""
    return f"{error.type}: {error.message}" if error.type else error.message


def record_of_warning(warning: WarningRecord) -> Record:
    about = f"kernel:{warning.kernel}" if warning.kernel else "run"
    fields = {"warning.origin": warning.origin}
    return Record("warning", fields, warning.text, warning=warning, about=about, at=warning.at, certain=False)


def record_of_hazard(hazard: Mapping[str, Any], about: str = "run") -> Record:
    """What a lint found, as JSON: `{"kind", "about", "at": Place, "labels", "certainty", "fields": {…}}`.

    `fields["found_by"]` says how the place was found, if not by computing. The other `fields`, and any further key, become
    `hazard.<name>` beside `hazard.kind` and `hazard.about`. Raises `KeyError`, `TypeError` or `ValueError` for data of another shape.
    """
    further = {name: value for name, value in hazard.items() if name not in ("at", "labels", "certainty", "fields")}
    values = {"kind": hazard["kind"], **further, **hazard.get("fields", {})}
    place = from_json(Place, hazard["at"]) if hazard.get("at") else None
    found_by = FoundBy(values.pop("found_by", FoundBy.LINT))
    return Record(
        "hazard",
        _present({f"hazard.{name}": value for name, value in values.items()}),
        about=about,
        at=Location(place.file, place.line, found_by=found_by) if place else None,
        labels=tuple(from_json(Label, label) for label in hazard.get("labels", ())),
        certain=hazard.get("certainty", "certain") == "certain",
    )


def record_of_kernel(kernel: KernelRecord, about: str = "run") -> Record:
    """The numbers of a kernel that conditions can ask for; shared bytes are those the lowered kernel requests."""
    threads = _product(kernel.launch.threads)
    fields = {
        "kernel.name": kernel.name,
        "kernel.threads": threads,
        "kernel.shared_bytes": kernel.shared_bytes,
        "kernel.buffers": len(kernel.buffers),
        "kernel.params": len(kernel.params),
        "kernel.target": kernel.target.get("kind"),
        "kernel.arch": kernel.target.get("arch"),
    }
    for axis, extent in zip("xyz", kernel.launch.grid, strict=False):
        fields[f"kernel.grid_{axis}"] = extent if isinstance(extent, int) else None
    return Record("kernel", _present(fields), about=about)


def records_of_output_line(line: str, stream: str = "stderr", about: str = "run") -> list[Record]:
    """A line of output as `log` record; none for a blank one."""
    return [Record("log", {"log.stream": stream}, line, about=about, certain=False)] if line.strip() else []


def try_rule(rule: Rule, record: Record, facts: Mapping[str, Any]) -> Trial:
    """Try one rule on one record. `facts` are the values known about what the record is about."""
    match = rule.match
    if match.on != record.on:
        return Trial(Outcome.MISS, why=f"the rule reads {match.on}, this is {record.on}")
    captures: dict[str, Any] = {}
    reasons = []
    if match.text is not None:
        if record.text is None:
            return Trial(Outcome.MISS, why="no text")
        try:
            found = search(match.text, record.text)
        except TimeoutError:
            return Trial(Outcome.TIMED_OUT, why=f"the search took over {SEARCH_TIMEOUT:g} s")
        if found is None:
            return Trial(Outcome.MISS, why="the text differs")
        captures = {name: typed(value) for name, value in found.groupdict().items() if value is not None}
        reasons.append("the text fits")
    if match.line is not None:
        frame = raising_frame(record.error) if record.error else None
        if frame is None or frame.user is False or search(match.line, frame.text) is None:
            return Trial(Outcome.MISS, captures, "the line that raised is another one, or was not seen")
    asked = conditions.all_hold(match.when + invariant(rule, captures), {**facts, **record.fields, **captures})
    if not asked.holds:
        return Trial(Outcome.MISS, captures, asked.why)
    for condition in match.unless:
        ruled_out = conditions.holds(condition, {**facts, **record.fields, **captures})
        if ruled_out.holds:
            return Trial(Outcome.MISS, captures, f"ruled out: {ruled_out.why}")
    if asked.why:
        reasons.append(asked.why)
    if record.error and record.error.printed_by:
        return Trial(Outcome.MISS, captures, f"printed by {record.error.printed_by}")
    seen = raised_where(rule, record.error) if record.error else (True, "")
    if seen[0] is False:
        return Trial(Outcome.MISS, captures, seen[1])
    outcome = Outcome.MATCH if seen[0] else Outcome.UNOBSERVED
    return Trial(outcome, captures, "; ".join(r for r in (*reasons, seen[1]) if r))


def invariant(rule: Rule, captures: Mapping[str, Any]) -> tuple[conditions.Condition, ...]:
    """The `same_fault` conditions about what was captured; another wording of the same error may not say it."""
    return tuple(condition for condition in rule.match.same_fault if condition.fact in captures)


def search(pattern: str, text: str) -> regex.Match[str] | None:
    """Search what `ends` leaves of `text`. Raises `TimeoutError`."""
    return compiled(pattern).search(ends(text), timeout=SEARCH_TIMEOUT)


def ends(text: str) -> str:
    """The text, or its two ends with a line break between them if it is over `TEXT_LIMIT`."""
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT // 2] + "\n" + text[-TEXT_LIMIT // 2 :]


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> regex.Pattern[str]:
    """The compiled expression: V0, multi-line anchors as in `re.MULTILINE`. Raises `regex.error`."""
    return regex.compile(pattern, regex.MULTILINE)


def typed(text: str) -> int | float | str:
    """A captured text as the number it spells, else stripped text."""
    text = text.strip()
    if INTEGER.fullmatch(text):
        return int(text)
    if FLOAT.fullmatch(text):
        return float(text)
    return text


def raising_frame(error: ErrorRecord) -> Frame | None:
    """The innermost frame, but for those in which C++ only turns a failed check into an error."""
    return next((frame for frame in reversed(error.frames) if not CARRIER.match(frame.function)), None)


def user_raised(error: ErrorRecord) -> bool:
    """Whether the user's own `raise` or `assert` made this error: then its text proves nothing about tilelang."""
    frame = raising_frame(error)
    if frame is None or not frame.user:
        return False
    if error.type == "SystemExit":
        return True
    return frame.raises if frame.raises is not None else bool(regex.match(r"\s*(raise|assert)\b", frame.text))


def raised_where(rule: Rule, error: ErrorRecord) -> tuple[bool | None, str]:
    """Whether the raising frame is where the rule says: True, False, or None if that cannot be seen."""
    return raised_among(rule.match.raised_in, error)


def raised_among(wanted: Sequence[str], error: ErrorRecord) -> tuple[bool | None, str]:
    """Whether the raising frame is one of `wanted`, entries as `raised_in` has them: True, False, or None if unseen."""
    frame = raising_frame(error)
    if frame is None:
        if wanted and all(_function(entry) for entry in wanted):  # the text alone is that of another rule, too
            return False, "which function raised it was not seen"
        return (None, "no frame was seen") if wanted or error.kind == "exception" else (True, "")
    if user_raised(error):
        return False, f"raised by the user's own statement at {frame.file}:{frame.line}"
    if not wanted:  # the rule does not say where it is raised: then anything may have raised this text
        return (None, "") if error.kind == "exception" else (True, "")
    where = f"raised in {frame.file}:{frame.line}"
    if frame.user:
        return (USER in wanted), where
    if any(_fits(entry, frame) for entry in wanted):
        return True, where
    if frame.file in NOWHERE or frame.file.startswith("<frozen"):
        scoped = [entry for entry in wanted if "::" in entry]
        if scoped and frame.function and len(scoped) == len(wanted):
            return False, f"raised in {frame.function}"
        return None, "the raising frame has no file"
    if frame.user is None and USER in wanted:
        return None, f"{where}, and nobody told whose file that is"
    return False, where


#: modules beside the standard library that a kernel's script loads, and that a file of the same name would replace
LOADED = frozenset(
    {"cuda", "torch", "numpy", "tilelang", "tvm", "triton", "einops", "packaging", "tqdm", "cloudpickle", "psutil"}
)
NEEDED = sys.stdlib_module_names | LOADED


#: `from` a module whose file is named, and which is not where Python or pip puts modules
OTHER_FILE = regex.compile(
    r"cannot import name '\w+' from '(?P<module>\w+)' \((?![^)\n]*(?:(?:site|dist)-packages|/lib/python))[^)\n]*/(?P=module)\.py\)"
)


def shadowed_module(error: ErrorRecord) -> str | None:
    """The installed module in whose place a file of the user was imported.

    Either a library's frame ran the file on import, or the text calls the file's module half-made, or a library could
    not import a name from a file that lies in no folder of packages.
    """
    frame = raising_frame(error)
    found = OTHER_FILE.search(error.message)
    if found and found["module"] in NEEDED and frame is not None and frame.user is False:
        return str(found["module"])
    for caller, frame in zip((None, *error.frames), error.frames, strict=False):
        name = frame.file.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
        if not frame.user or frame.function != "<module>" or name not in NEEDED:
            continue
        if (caller is not None and caller.user is False) or regex.search(rf"'{name}'", error.message):
            return name
    return None


def _fits(entry: str, frame: Frame) -> bool:
    if entry == USER:
        return frame.user is True
    if "::" in entry:
        return entry in frame.function
    path, function = entry.partition(":")[0], _function(entry)
    parts, suffix = frame.file.replace("\\", "/").split("/"), path.strip("/").split("/")
    return parts[-len(suffix) :] == suffix and function in ("", frame.function.rpartition(".")[2])


def _function(entry: str) -> str:
    """The function that an entry of `raised_in` names behind its path, or nothing."""
    return "" if "::" in entry else entry.partition(":")[2]


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: to_json(value) for name, value in fields.items() if value is not None}


def _product(extents: tuple[int | str, ...]) -> int | None:
    product = 1
    for extent in extents:
        if not isinstance(extent, int):
            return None
        product *= extent
    return product if extents else None
