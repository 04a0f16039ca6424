"""What nvcc, ptxas, the host compiler and the linker say.

A failed compile reaches the user as one exception whose message is the whole generated source, dozens of warnings
about library headers, the first error somewhere below them, and the command line. The decisive part is the first
error with the trail of instantiations (or includes) that leads to it from the generated source, and from there, if
the source had line directives, to a line of the user's file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from triage.model import ErrorRecord, FoundBy, Frame, Location
from triage.readers.directives import directed_line
from triage.readers.frames import User
from triage.readers.lines import Line, quote
from triage.readers.messages import mentions

#: begins the compiler's own output inside an exception message
COMPILER_OUTPUT = re.compile(r"^(?:Compilation (?:error:|Failed! )|Compiler output:$)", re.MULTILINE)
COMMAND = ("Command: ", "Command line: ")
#: errors of one compile that are kept; the first decides, the rest are mostly its echo
ERROR_LIMIT = 20

_SEVERITY = r"(?P<severity>catastrophic error|fatal error|internal error|error|warning|note|remark)"
#: a path, so that a script's `epoch:3: error: 0.25` is none
_FILE_EDG = r"(?=[^()]*[./\\])[^()\s][^()]*"
_FILE_GCC = r"(?=[^:]*[./\\]|[A-Za-z]:[./\\])(?:[A-Za-z]:(?=[\\/]))?[^\s:][^:]*"
_HEADERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # `file(12): error: …` of nvcc's front end (EDG), `file(12): error C2065: …` of MSVC
    ("nvcc", re.compile(rf"(?P<file>{_FILE_EDG})\((?P<line>\d{{1,9}})\): (?P<text>{_SEVERITY}(?: #?[A-Z]?\d+(?:-D)?)?: .*)")),
    # `file:12:3: error: …` of gcc and clang
    ("c++", re.compile(rf"(?P<file>{_FILE_GCC}):(?P<line>\d{{1,9}}):(?:(?P<column>\d{{1,9}}):)? (?P<text>{_SEVERITY}: .*)")),
    ("ptxas", re.compile(r"(?P<text>ptxas (?:(?P<file>\S+), line (?P<line>\d{1,9}); )?(?P<severity>fatal|error|warning|info)\s*: .*)")),
    ("nvlink", re.compile(r"(?P<text>nvlink (?P<severity>fatal|error|warning)\s*: .*)")),
    ("nvcc", re.compile(r"(?P<text>nvcc (?P<severity>fatal|error|warning)\s*: .*)")),
    ("ld", re.compile(r"(?P<text>(?:\S*/)?(?:ld|ld\.\w+): (?P<severity>(?:error: )?(?:cannot find|undefined reference|undefined symbol|unable to find)).*)")),
    ("ld", re.compile(r"(?P<text>\S+: (?P<severity>undefined reference) to .*)")),
    ("c++", re.compile(rf"(?P<text>(?:\S*/)?(?:cc1plus|cc1|g\+\+|gcc|c\+\+|clang(?:\+\+)?(?:-\d+)?|hipcc): {_SEVERITY}: .*)")),
    ("nvcc", re.compile(r"(?P<text>(?:sh|bash|/bin/sh)(?:: (?:line )?\d+)?: (?:cicc|ptxas|cudafe\+\+|fatbinary): (?P<severity>(?:command )?not found))")),
)  # fmt: skip
#: no header is without one of these; looking for them first keeps ordinary lines cheap
_HINT = re.compile("error|warning|fatal|note|remark|undefined|cannot find|unable to find|not found|ptxas info")
_NOT_ERRORS = frozenset({"warning", "note", "remark", "info"})
_TRAIL = re.compile(r"(?P<what>.*?)\bat line (?P<line>\d{1,9})(?: of (?P<file>\S.*))?$")
_INCLUDED = re.compile(r"(?:In file included from|\s+from) (?P<file>[^\s:][^:]*):(?P<line>\d{1,9})(?::\d+)?[:,]$")
_GCC_EXCERPT = re.compile(r"\s*\d+ \| ?(?P<text>.*)")
_SUMMARY = re.compile(
    r"\d+ (?:errors?|warnings?)\b.*\b(?:detected|generated)|compilation terminated|Remark: |collect2: error: ld returned"
)
_UNIT_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c", ".hip")
_BODY_LIMIT = 60


@dataclass(slots=True)
class Diagnostic:
    tool: str
    severity: str
    text: str
    head: Line
    file: str | None = None
    line: int = 0
    column: int | None = None
    body: list[Line] = field(default_factory=list)
    included: list[tuple[str, int]] = field(default_factory=list)  # outermost last, as gcc prints it

    @property
    def is_error(self) -> bool:
        return self.severity not in _NOT_ERRORS


def diagnostic(line: Line) -> Diagnostic | None:
    """Read the first line of a diagnostic; None where `line` is something else."""
    view = line.view
    if not view or view[0].isspace() or _HINT.search(view) is None:
        return None
    for tool, pattern in _HEADERS:
        match = pattern.match(view)
        if match is None:
            continue
        groups = match.groupdict()
        return Diagnostic(
            tool=tool,
            severity=groups["severity"],
            text=groups["text"],
            head=line,
            file=groups.get("file"),
            line=int(groups.get("line") or 0),
            column=int(groups["column"]) if groups.get("column") else None,
        )
    return None


def read_diagnostics(lines: Sequence[Line]) -> list[Diagnostic]:
    """All diagnostics in `lines`, in order, each with the lines that belong to it."""
    found: list[Diagnostic] = []
    included: list[tuple[str, int]] = []
    current: Diagnostic | None = None
    for line in lines:
        head = diagnostic(line)
        include = _INCLUDED.match(line.view)
        if head is not None:
            if head.severity == "note" and current is not None:
                current.body.append(line)
                continue
            head.included, included = included, []
            current = head
            found.append(head)
        elif include is not None:
            if line.view.startswith("In file"):
                included = []
            included.append((include["file"], int(include["line"])))
            current = None
        elif not line.view or _SUMMARY.match(line.view) or line.view.startswith(COMMAND):
            current = None
        elif current is not None and len(current.body) < _BODY_LIMIT:
            current.body.append(line)
    return found


def is_output_line(view: str) -> bool:
    """True for the lines of compiler output that are no diagnostics themselves."""
    return _INCLUDED.match(view) is not None or _SUMMARY.match(view) is not None


def compiler_causes(body: Sequence[Line], artifact: str | None, user: User) -> tuple[ErrorRecord, ...]:
    """The compiler's errors in an exception message, first the decisive one; empty for other messages."""
    mark = next((at for at, line in enumerate(body) if COMPILER_OUTPUT.match(line.view)), None)
    if mark is None:
        return ()
    command = next((at for at in range(mark, len(body)) if body[at].view.startswith(COMMAND)), len(body))
    errors = [d for d in read_diagnostics(body[mark + 1 : command]) if d.is_error]
    source = [line.view for line in body[:mark]]
    return tuple(error_record(d, artifact, user, source, relation="inner") for d in errors[:ERROR_LIMIT])


def error_record(
    found: Diagnostic, artifact: str | None, user: User, source: Sequence[str] = (), relation: str | None = None
) -> ErrorRecord:
    """`source` holds the lines of the generated source, where they are known: its line N is `source[N - 1]`."""
    places = [(file, _directed(file, number, what, source, found, user), what) for file, number, what in _places(found)]
    excerpt = _excerpt(found)
    frames = tuple(
        _frame(file, number, what, excerpt if at == len(places) - 1 else "", user, source)
        for at, (file, number, what) in enumerate(places)
    )
    return ErrorRecord(
        kind="compiler",
        type=found.tool,
        message="\n".join([found.text, *(line.view for line in found.body)]),
        frames=frames,
        phase="device",
        quote=quote(found.head, artifact),
        named=_named([place for place in places if place[1]], user),
        mentions=mentions(found.text),
        relation=relation,
    )


def _directed(file: str, number: int, what: str, source: Sequence[str], found: Diagnostic, user: User) -> int:
    """The line of the user's statement; 0 where the generated lines of several statements fit. Others stay."""
    if not _may_be_user(file, user(file)):
        return number
    return directed_line(source, file, number, (line.view for line in found.body), what or found.text) or 0


def _places(found: Diagnostic) -> list[tuple[str, int, str]]:
    """File, line and what was being compiled, from the outermost place to the one the error is reported at."""
    if found.file is None:
        return []
    trail: list[tuple[str, int, str]] = []
    for line in found.body:
        match = _TRAIL.match(line.view)
        if match is not None:
            what = match["what"].strip().removeprefix("detected during:").removeprefix("detected during").strip()
            trail.append((match["file"] or found.file, int(match["line"]), what))
    outer = [*((file, number, "") for file, number in reversed(found.included)), *reversed(trail)]
    return [*outer, (found.file, found.line, "")]


def _excerpt(found: Diagnostic) -> str:
    if not found.body:
        return ""
    first = found.body[0].view
    numbered = _GCC_EXCERPT.match(first)
    return (numbered["text"] if numbered else first).strip()


def _frame(file: str, number: int, what: str, excerpt: str, user: User, source: Sequence[str]) -> Frame:
    whose = user(file)
    text = "" if _may_be_user(file, whose) else excerpt  # the excerpt is generated code, not a line of the user's
    if not text and whose is not True and file.endswith(_UNIT_SUFFIXES) and 0 < number <= len(source):
        text = source[number - 1].strip()
    return Frame(
        file=file, line=number, function=what, text=text, lang="cxx",
        user=whose if number and _may_be_user(file, whose) else False,
    )  # fmt: skip


def _named(places: list[tuple[str, int, str]], user: User) -> tuple[Location, ...]:
    """The user's lines, innermost first: they are there because line directives were on.

    They get no snippet: what the compiler shows below them is the generated line.
    """
    found: dict[tuple[str, int], Location] = {}
    for file, number, _ in reversed(places):
        if _may_be_user(file, user(file)):
            found.setdefault((file, number), Location(file, number, found_by=FoundBy.LINE_DIRECTIVE))
    return tuple(found.values())


def _may_be_user(file: str, whose: bool | None) -> bool:
    return whose is True or (whose is None and file.endswith(".py"))
