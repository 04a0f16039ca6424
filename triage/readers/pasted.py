"""Errors in a text that was copied out of its surroundings: an issue, a chat, a cut log.

Nothing here says where a record begins, so each reader knows a shape that hardly means anything else: the last line of a
traceback, the sentence of a compiler without its place, an exception behind a prefix, the name of a driver's error code, a
traceback without head or end. They are asked in this order, and only of a text in which nothing whole was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from triage.model import ErrorRecord, Frame
from triage.readers.blocks import bare_exception_line, starts_block
from triage.readers.denial import is_denied
from triage.readers.frames import frame_line, make_frame
from triage.readers.lines import Line, quote
from triage.readers.messages import mentions, spans
from triage.readers.pytest_output import pasted_error
from triage.readers.traceback import Source

#: Lines that a message may have after its first one, where nothing marks its end.
MESSAGE_LINES = 6
#: what the front ends of nvcc and clang say of code, whatever stands around it
_COMPILER = re.compile(
    r"identifier \W?[\"'`][\w:~]+[\"'`]\W? is undefined|use of undeclared identifier ['‘]\w+['’]"
    r"|['\"‘][\w:~]+['\"’] was not declared in this scope|no instance of (?:overloaded )?(?:function|constructor)\b"
    r"|no matching (?:member )?function for call to|no operator \"[^\"\s]+\" matches these operands"
    r"|no suitable (?:user-defined )?(?:conversion|constructor)\b|static[_ ]assert(?:ion)? failed"
    r"|more than one (?:operator|instance of overloaded function|user-defined conversion)\b"
    r"|cannot be used to initialize an entity of type|name followed by \"::\" must be a class"
    r"|fatal error: ['\"]?[\w./+-]+['\"]?(?:: No such file or directory| file not found)|cannot open source file"
    r"|too (?:few|many) arguments (?:in|to) (?:function )?call|[Uu]nsupported gpu architecture|ptxas (?:fatal|error)\b"
    r"|(?<!\d)\d+ errors? detected in the compilation of|no member named ['\"]\w+['\"] in"
)
#: what a failed `assert` of C prints, in a kernel or in a library
_ASSERTION = re.compile(r"\b[Aa]ssertion [`'‘].{1,400}['`’] failed\b")
#: a frame of TVM's or TileLang's C++, as tvm-ffi prints it and as TVM did before
_CXX_FRAME = re.compile(r'\s*(?:File "<unknown>", line 0, in |(?P<number>\d{1,3}): )(?P<function>tvm::\w[^\n]*)')
#: lines below such a sentence that may belong to it: what the operands are
_BELOW = 3
_DETAIL = re.compile(r"\s+(?:argument|operand) types? (?:is|are): ")
_BEHIND_PREFIX = re.compile(
    r"(?:^|[\s`'\"(>|:\]])(?P<type>(?:[A-Za-z_]\w*\.){0,6}[A-Z]\w{2,60}(?:Error|Exception|Interrupt)): (?P<message>\S.*)"
)
#: error codes of the CUDA, HIP and Ascend runtimes, and how torch and TVM introduce them
_CODES = re.compile(
    r"\b(?:CUDA_ERROR_[A-Z_]{3,}|cudaError[A-Z]\w+|hipError[A-Z]\w+|ACL_ERROR_\w+|CUBLAS_STATUS_[A-Z_]+|CUDNN_STATUS_[A-Z_]+)\b"
    r"|\b(?:CUDA|HIP|ACL|NPU)(?: runtime| driver)? error(?: code)?\b[:= ]|\berror code:? (?:is )?50\d{4}\b|\bEZ9999\b"
)


def read_pasted(lines: Sequence[Line], source: Source) -> list[ErrorRecord]:
    """What the first reader that knows anything in `lines` makes of them."""
    readers: tuple[Callable[[Sequence[Line], Source], list[ErrorRecord]], ...] = (
        _exceptions,
        _sentences,
        _behind_prefixes,
        _codes,
        _raised,
        _cxx_stack,
    )
    return next((found for read in readers if (found := read(lines, source))), [])


def _exceptions(lines: Sequence[Line], source: Source) -> list[ErrorRecord]:
    """Lines that look like the last one of a traceback; pytest's `E   ` is taken off, its further lines go on the message."""
    found: list[ErrorRecord] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        view = pasted_error(line.view)
        at += 1
        parsed = bare_exception_line(view)
        if parsed is None and not view.startswith("Check failed: "):
            continue
        if parsed and parsed[0] == "error" and _COMPILER.search(view):
            continue  # what a compiler says, and not an exception of the name `error`
        kind, message = parsed or ("", view)
        below = _message_below(lines, at, quoted=view != line.view)
        message = "\n".join([message, *below])
        at += len(below)
        found.append(_exception(kind, message, line, source))
    return found


def _message_below(lines: Sequence[Line], at: int, quoted: bool) -> list[str]:
    """What goes on the message below its first line: all that pytest's `E   ` marks, else lines without a gap, not many."""
    found: list[str] = []
    for line in map(
        lines.__getitem__, range(at, len(lines))
    ):  # no slice, which would copy all the rest for each message
        view = pasted_error(line.view)
        if (view == line.view) if quoted else (not view.strip() or len(found) == MESSAGE_LINES or _starts_anew(view)):
            break
        found.append(view)
    return found


def _starts_anew(view: str) -> bool:
    return bare_exception_line(view) is not None or starts_block(view) or frame_line(view) is not None


def _sentences(lines: Sequence[Line], source: Source) -> list[ErrorRecord]:
    found = []
    for at, line in enumerate(lines):
        match = _COMPILER.search(line.view)
        if match is not None and not _denied(lines, at, match):
            below = [after.view for after in lines[at + 1 : at + 1 + _BELOW] if _DETAIL.match(after.view)]
            text = "\n".join([_sentence(line.view[match.start() :]), *below])
            found.append(ErrorRecord("compiler", "nvcc", text, quote=quote(line, source.artifact)))
    return found


def _sentence(text: str) -> str:
    return text if text.startswith(("fatal", "ptxas")) else f"error: {text}"


def _behind_prefixes(lines: Sequence[Line], source: Source) -> list[ErrorRecord]:
    return [
        _exception(match["type"], match["message"].rstrip("`'\")"), line, source)
        for at, line in enumerate(lines)
        if (match := _BEHIND_PREFIX.search(line.view)) is not None and not _denied(lines, at, match)
    ]


def _codes(lines: Sequence[Line], source: Source) -> list[ErrorRecord]:
    return [
        ErrorRecord("check", "runtime", line.view.strip(), quote=quote(line, source.artifact))
        for at, line in enumerate(lines)
        if (match := _CODES.search(line.view) or _ASSERTION.search(line.view)) is not None
        and not _denied(lines, at, match)
    ]


def _denied(lines: Sequence[Line], at: int, match: re.Match[str]) -> bool:
    return is_denied(lines[at].view, match.start(), match.end(), lines[at - 1].view if at else "")


def _raised(lines: Sequence[Line], source: Source) -> list[ErrorRecord]:
    """Frames whose last statement raises: a traceback without head, cut before its last line. Other frames are no error."""
    frames: list[Frame] = []
    for at, line in enumerate(lines):
        parsed = frame_line(line.view)
        if parsed is not None and parsed.named:
            below = lines[at + 1].view.strip() if at + 1 < len(lines) else ""
            frames.append(make_frame(parsed, "" if frame_line(below) else below, source.user))
            last = line
    if not frames or not frames[-1].text.startswith(("raise ", "assert ")):
        return []
    return [ErrorRecord("exception", "", "", frames=tuple(frames), quote=quote(last, source.artifact))]


def _cxx_stack(lines: Sequence[Line], source: Source) -> list[ErrorRecord]:
    """Frames in TVM's or TileLang's C++, which only an error prints: `3: tvm::tl::F(…)` innermost last, or as tvm-ffi shows them."""
    found = [(line, match) for line in lines if (match := _CXX_FRAME.match(pasted_error(line.view))) is not None]
    if not found:
        return []
    numbers = [int(match["number"]) for _, match in found if match["number"]]
    frames = [Frame("<unknown>", 0, match["function"], lang="cxx", user=False) for _, match in found]
    if numbers and numbers[0] < numbers[-1]:
        frames.reverse()  # numbered from the innermost on
    return [ErrorRecord("exception", "", "", frames=tuple(frames), quote=quote(found[0][0], source.artifact))]


def _exception(kind: str, message: str, line: Line, source: Source) -> ErrorRecord:
    return ErrorRecord(
        kind="exception",
        type=kind,
        message=message,
        quote=quote(line, source.artifact),
        mentions=mentions(message),
        named=spans([line.view], source.user),
    )
