"""The oracle of lowering experiments: does a changed program show the same fault? Pure.

An experiment is evidence only if what it shows is the fault under examination. Removing a statement may well make
another one fail, in another way, and a minimizer that takes any failure for the failure slips from one bug to the
next. So a fault has an identity, `FaultKey`: the exception, where in the compiler it was raised (a path and a
function, never a line), the pass, and the decisive line of the text with what varies blanked. Two faults are the
same when all of these agree; the answer says which part differed. A time-out or a broken experiment shows nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from triage.model import ErrorRecord, FaultKey, Frame


class Verdict(StrEnum):
    SAME = "same-fault"
    OTHER = "other-fault"
    NONE = "no-fault"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome:
    """`differs` names the parts of the key that are not the same, for `other-fault`."""

    verdict: Verdict
    differs: tuple[str, ...] = ()
    why: str = ""


def judge(start: FaultKey, status: str, error: ErrorRecord | None, pass_name: str | None = None) -> Outcome:
    """Compare the result of an experiment (`status` as in `template.Result`) with the fault it started from."""
    if status == "succeeded":
        return Outcome(Verdict.NONE)
    if status != "failed" or error is None:
        return Outcome(Verdict.UNKNOWN, why=status)
    differs = differing(start, fault_key(error, pass_name))
    return Outcome(Verdict.OTHER if differs else Verdict.SAME, differs)


def differing(start: FaultKey, other: FaultKey) -> tuple[str, ...]:
    """The parts in which two keys differ. Operands are compared by name, where both give a value."""
    parts = [
        name
        for name in ("kind", "exception", "raiser", "pass_name", "text")
        if getattr(start, name) != getattr(other, name)
    ]
    shared = start.operands.keys() & other.operands.keys()
    return (*parts, *(f"operands.{name}" for name in sorted(shared) if start.operands[name] != other.operands[name]))


def fault_key(
    error: ErrorRecord, pass_name: str | None = None, rule: str = "", operands: dict[str, object] | None = None
) -> FaultKey:
    """The identity of an error; `pass_name` defaults to the one that the record carries."""
    return FaultKey(
        kind="signal" if error.kind == "signal" else "exception",
        exception=error.type,
        raiser=raiser(error.frames),
        pass_name=pass_name or error.pass_name or "",
        rule=rule,
        operands=dict(operands or {}),
        text=normalize(decisive(error.message)),
    )


#: frames that carry an error from one language to the other or format it: never where a fault was found
CARRIERS = re.compile(
    r"LogFatal|TVMFFI\w*|ErrorSetRaised|tvm_ffi\.core\.|_FuncPtr|std::_Function_handler|CHECK_CALL|InternalError"
)
#: everything up to the package, so that the same file has the same name on every machine
PACKAGE = re.compile(r"^.*?(?:site-packages|dist-packages|/project|/workspace/tilelang)/")
STANDARD = re.compile(r"^.*/lib/python\d\.\d+/")


def raiser(frames: tuple[Frame, ...]) -> str:
    """`path:function` of the innermost frame that is the compiler's and says something; "" without frames."""
    for frame in reversed(frames):
        if frame.user is not True and not CARRIERS.search(frame.function):
            path = STANDARD.sub("", PACKAGE.sub("", frame.file))
            if path.startswith("/"):  # generated source in a temporary folder, say
                path = path.rpartition("/")[2]
            return f"{'' if path.startswith('<') else path}:{function_name(frame.function)}"
    return ""


def function_name(signature: str) -> str:
    """A C++ signature without return type, arguments and qualifiers; a Python name as it is."""
    depth = 0
    name = ""
    for character in signature.replace("(anonymous namespace)", "{anonymous}"):
        if character == "(" and depth == 0 and not name.endswith("operator"):
            break
        depth += {"<": 1, ">": -1}.get(character, 0)
        if depth == 0 and character != ">":
            name += character
    return name.split(" ")[-1]


#: a source excerpt that some messages carry: `  --> file:line:column`, and what follows
ARROW = re.compile(r"^\s*--> ", re.MULTILINE)
NVCC_ERROR = re.compile(r"\)\s*:\s*(?:catastrophic |fatal )?error\b|\bnvcc fatal\b|:\d+:\s*(?:fatal )?error:")


def told(message: str) -> str:
    """What a message says, without what it only shows: the generated source before the errors of a device compiler and
    the command after them, or the excerpt of the user's source at the end."""
    for start in NVCC_ERROR.finditer(message):
        line = message.rfind("\n", 0, start.start()) + 1
        end = message.find("\nCommand:", start.end())
        return message[line : end if end >= 0 else None]
    arrow = ARROW.search(message)
    return message[: arrow.start()] if arrow else message


def decisive(message: str) -> str:
    """The line of a message that says what is wrong; "" of an empty message."""
    return next((line.strip() for line in told(message).splitlines() if line.strip()), "")


PLACES = (
    (re.compile(r"(?:/[\w.+-]+)+/([\w.+-]+)"), r"\1"),  # a directory differs between machines and experiments
    (re.compile(r"0x[0-9a-fA-F]+"), "#"),
)
BLANKS = (
    *PLACES,
    (re.compile(r"\b([A-Za-z]\w*?)_\d+\b"), r"\1"),  # a name that was made unique
    (re.compile(r"(?<!\w)-?\d+(?:\.\d+)?"), "#"),  # not the one in `float16`
)


def placeless(text: str) -> str:
    """A text without directories and addresses, which differ between two runs of one script."""
    for pattern, blank in PLACES:
        text = pattern.sub(blank, text)
    return text


def normalize(text: str) -> str:
    """A text without what varies between two occurrences of one fault: numbers, addresses, directories, name suffixes."""
    for pattern, blank in BLANKS:
        text = pattern.sub(blank, text)
    return " ".join(text.split())
