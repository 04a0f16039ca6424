"""Where one thing ends and the next begins in a stream of output.

An exception's message has no end mark. What certainly begins something else ends it: another traceback, a log
line, a section mark of a test run or of a collected log.
"""

from __future__ import annotations

import re

TRACEBACK = "Traceback (most recent call last):"
CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"

#: TVM's C++ logger: `[22:30:18] : Warning: text`, `[22:30:18] /project/src/x.cc:12: Warning: text`
TVM_LOG = re.compile(
    r"\[\d\d:\d\d:\d\d\] (?:(?P<file>[^\s:]+):(?P<line>\d{1,9}))? ?: (?P<level>Warning|Info|Error|Fatal|Debug): ?(?P<text>.*)"
)
#: TileLang's Python logger; the timestamp before it may already have been taken off
TILELANG_LOG = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)?)?\s*\[TileLang:(?P<logger>[\w.]+):(?P<level>[A-Z]+)\](?: \([^)]*\))?: ?(?P<text>.*)"
)
SECTION = re.compile(r"(?:-{3,}|={3,}|_{3,}|#{3,}) ?\S.*|\+?-{10,}\+?$|={10,}$|#{10,}$")
#: `Exception ignored in: <function …>`, `Exception in thread Thread-1 (f):`, `Process Process-1:`
PREAMBLE = re.compile(r"Exception ignored in:? |Exception in thread |Process \S+:$")
CRASH_HEADS = ("!!!!!!! ", "Fatal Python error: ", "Current thread 0x", "Thread 0x", "terminate called ", "Timeout (")
#: what a shell says of a child that died: `x.sh: line 3:  77 Segmentation fault  (core dumped) python k.py`
SHELL_CRASH = re.compile(
    r"(?:.*[:\d] +)?(?P<what>Segmentation fault|Bus error|Illegal instruction|Aborted|Killed|Floating point exception)"
    r"(?: +\(core dumped\))?(?:$| {2,}\S)"
)
_DEATH = re.compile("Segmentation|Bus error|Illegal|Aborted|Killed|Floating")
_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*+(?:\.<locals>)?\.)*+(?:[A-Z](?=\w*[a-z])\w*+|error))(?:: ?(?P<message>.*))?$"
)
#: what programs around the subject print after its error
_AROUND = ("##[", "make: ***", "make[", "ninja: ", "srun: ", "slurmstepd: ", "+ exit")
_ENDS_LIKE_ERROR = re.compile(r"(?:Error|Exception|Interrupt|Exit|Failure|Abort|Group)$|^error$|\.error$")


def starts_block(view: str) -> bool:
    """True where `view` certainly is not part of the exception message above it."""
    if not view:
        return False
    head = view[0]
    if head in " \t":
        return view.lstrip().startswith("+ Exception Group Traceback")
    if head == "[":
        return TVM_LOG.match(view) is not None or TILELANG_LOG.match(view) is not None
    if head.isdigit():
        return TILELANG_LOG.match(view) is not None
    if head in "-=_#+":
        return view.startswith(_AROUND) or SECTION.match(view) is not None
    return (
        view.startswith((CAUSE, CONTEXT))
        or view.endswith(TRACEBACK)
        or view.startswith(_AROUND)
        or view.startswith(CRASH_HEADS)
        or PREAMBLE.match(view) is not None
        or shell_crash(view) is not None
    )


def shell_crash(view: str) -> str | None:
    """What killed a process, where `view` is a shell's line about it."""
    if len(view) > 400 or _DEATH.search(view) is None:
        return None
    match = SHELL_CRASH.match(view)
    return match["what"] if match else None


def exception_line(view: str) -> tuple[str, str] | None:
    """Split `tvm.error.InternalError: text` into type and first message line, inside a traceback."""
    if not view or not (view[0].isalpha() or view[0] == "_"):
        return None
    match = _EXCEPTION.match(view)
    return (match["type"], match["message"] or "") if match else None


def bare_exception_line(view: str) -> tuple[str, str] | None:
    """As `exception_line`, for a line with no traceback above it: the type must sound like an error."""
    found = exception_line(view)
    return found if found and _ENDS_LIKE_ERROR.search(found[0]) else None
