"""A first draft of a rule from the log of a run: its decisive line as an expression, and who raised it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from triage.knowledge.judge import bare_function
from triage.knowledge.match import NOWHERE, USER, Record, raising_frame
from triage.knowledge.pattern import alternatives, specificity
from triage.knowledge.sound import SPECIFIC
from triage.model import ErrorRecord

#: What in a line is a value and not the words around it: an address, something quoted, numbers in brackets, a version, a number.
VALUE = re.compile(
    r"""(?P<address>0x[0-9a-fA-F]+)"""
    r"""|(?P<quote>['"`])(?P<quoted>[^'"`\n]+)(?P=quote)"""
    r"""|(?P<list>[\[(]-?\d+(?:,\s*-?\d+)+,?[\])])"""
    r"""|(?P<version>(?<![\w.-])\d+(?:\.\d+){2,}(?!\w))"""
    r"""|(?P<number>(?<![\w.-])-?\d+(?:\.\d+)?(?!\w))"""
)
SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
WORD = re.compile(r"[A-Za-z_]\w*")
#: Words between the name of a value and the value.
BETWEEN = frozenset(
    ("a", "an", "and", "are", "be", "by", "equals", "for", "from", "in", "is", "must", "of", "over", "than", "the", "to", "vs",
     "was", "with")
)  # fmt: skip
#: What C++ puts before the words of a failed check: the condition, which is renamed more often than the words.
CONDITION = re.compile(r"^(?:\w+Error: )?Check failed: .*?(?: is false: |\) : )(?=\S)")
#: What a compiler puts before its words.
DIAGNOSTIC = re.compile(r"^.*?\b(?=(?:fatal )?error: )")
#: What tells captures of one name apart.
NUMBERED = re.compile(r"_\d+$")
#: How long a name of a capture gets at most.
NAME_LENGTH = 24
OWN_RAISE = """\
Traceback (most recent call last):
  File "/home/user/kernels/plan.py", line 12, in <module>
    check(plan)
  File "/home/user/kernels/plan.py", line 8, in check
    raise {type}(plan.text)
{type}: {message}
"""


@dataclass(frozen=True)
class Draft:
    """What a log tells of the rule about it. `stage` is None where it does not; `miss` is a script's own raise of the words."""

    on: str
    text: str
    captures: tuple[str, ...]
    raised_in: tuple[str, ...]
    when: tuple[str, ...]
    stage: str | None
    hit: str
    miss: str


def draft(log: str, records: Sequence[Record]) -> Draft:
    """The draft for the first error in a log, else for the first warning. Raises `ValueError` where there is neither."""
    decisive = next((r for r in records if r.error), None) or next((r for r in records if r.warning), None)
    if decisive is None or not decisive.text:
        raise ValueError("no error and no warning was found in the log")
    error = decisive.error
    kind, message = (error.kind, error.message) if error else ("", decisive.text)
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    text, captures = generalized(_core(line, kind))
    if error and error.type and specificity(text) < SPECIFIC:
        text = f"^{generalized(error.type)[0]}: {text}"
    return Draft(
        on=decisive.on,
        text=text,
        captures=captures,
        raised_in=_raised_in(error) if error and kind == "exception" else (),
        when=(f"error.kind == {kind}",) if error and kind != "exception" else (),
        stage=decisive.fields.get("error.stage"),
        hit=scrubbed(log, records),
        miss=OWN_RAISE.format(
            type=error.type if error and error.type and kind == "exception" else "RuntimeError",
            # what looks like the line of a tool is read as one, whoever prints it: then the words without the values
            message=message.strip() if kind in ("exception", "") else " ".join(alternatives(text)[0]),
        ),
    )


def _core(line: str, kind: str) -> str:
    """The words of a line without what comes and goes in front of them, if enough of them are left."""
    if kind == "compiler":
        return DIAGNOSTIC.sub("", line)
    words = CONDITION.sub("", line)
    return words if specificity(generalized(words)[0]) >= 2 * SPECIFIC else line


def generalized(line: str) -> tuple[str, tuple[str, ...]]:
    """A line as an expression in which every value is a capture, and the names of the captures."""
    parts: list[str] = []
    names: list[str] = []
    at = 0
    for found in VALUE.finditer(line):
        before = line[at : found.start()]
        parts.append(_escaped(before))
        at = found.end()
        if found["address"]:
            parts.append("0x[0-9a-fA-F]+")
            continue
        name = _name(before, names)
        names.append(name)
        if found["quoted"]:
            quote = found["quote"]
            parts.append(rf"{quote}(?P<{name}>[^{quote}\n]+){quote}")
        elif found["version"]:
            parts.append(rf"(?P<{name}>\d+(?:\.\d+)+)")
        elif found["list"]:
            closing = found["list"][-1]
            parts.append(rf"(?P<{name}>\{found['list'][0]}[^\{closing}\n]*\{closing})")
        else:
            parts.append(rf"(?P<{name}>-?\d+\.\d+)" if "." in found["number"] else rf"(?P<{name}>-?\d+)")
    return "".join(parts) + _escaped(line[at:]), tuple(names)


def _name(before: str, taken: Sequence[str]) -> str:
    """A name for a value by the word in front of it, else that of the value before it."""
    words = [word for word in WORD.findall(before) if word.lower() not in BETWEEN]
    last = NUMBERED.sub("", taken[-1]) if taken else "value"
    name = NUMBERED.sub("", words[-1].lower()[:NAME_LENGTH]) if words else last
    number = sum(NUMBERED.sub("", other) == name for other in taken)
    return f"{name}_{number + 1}" if number else name


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text)


def _raised_in(error: ErrorRecord) -> tuple[str, ...]:
    """The entry of `raised_in` for the frame that raised; none if no frame tells."""
    frame = raising_frame(error)
    if frame is None:
        return ()
    if frame.user:
        return (USER,)
    file = frame.file.replace("\\", "/")
    if file in NOWHERE:
        scope = bare_function(frame.function).rpartition("::")[0]
        return (scope,) if scope else ()
    packaged = re.search(r"/(?:site|dist)-packages/(.+)", file)
    return (packaged[1] if packaged else "/".join(PurePosixPath(file).parts[-2:]).lstrip("/"),)


def scrubbed(log: str, records: Sequence[Record]) -> str:
    """The log with the folders of the machine replaced, as fixtures have them."""
    log = re.sub(r"(?<![\w/])/[^\s'\":]*?/(lib/python3\.\d+/(?:site|dist)-packages/)", r"/home/user/venv/\1", log)
    frames = [frame for record in records if record.error for frame in record.error.frames]
    folders = {frame.file.rpartition("/")[0] for frame in frames if frame.user and frame.file.startswith("/")}
    for folder in sorted(folders - {""}, key=len, reverse=True):
        log = log.replace(f"{folder}/", "/home/user/kernels/")
    return log
