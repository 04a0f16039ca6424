"""Which record of a chain tells what went wrong."""

from __future__ import annotations

import re

from triage.model import ErrorRecord, Frame

#: code whose errors speak about the kernel: tilelang, tvm and tvm-ffi, torch, CUDA's Python packages
_TOOLCHAIN = re.compile(
    r"(?:^|[/\\])(?:tilelang|tvm|tvm_ffi|torch|cuda|cupy|triton|apache_tvm_ffi)[/\\]|^/project/|^<unknown>$|[/\\](?:3rdparty|tl_templates)[/\\]"
)


def decisive(error: ErrorRecord) -> ErrorRecord:
    """The record that decides about `error`: itself or one of its `causes`, at any depth.

    An inner reason decides over the message that carries it: a compiler's first error, an embedded error. Of a group the
    first member decides. Of a chain the last error decides, for it says what the code that raised it wanted to
    say, except where the user's own code wrapped, or failed while handling, an error of the toolchain, or where it only
    repeats the error behind it, or ends the script because of it.
    """
    for cause in error.causes:
        if cause.relation in ("inner", "group"):
            return decisive(cause)
    if error.type.endswith("ExceptionGroup") and error.causes:
        return decisive(error.causes[0])
    chosen = error
    for candidate in map(decisive, error.causes):
        if (
            chosen.type == "SystemExit"
            or _repeats(chosen, candidate)
            or (_in_toolchain(candidate) and not _in_toolchain(chosen))
        ):
            chosen = candidate
    return chosen


def _repeats(outer: ErrorRecord, inner: ErrorRecord) -> bool:
    """A worker's error raised again in its parent, perhaps wrapped into text that ends with it."""
    said = inner.message.partition("\n")[0].strip()
    if not said:
        return False
    if outer.type == inner.type:
        return outer.message.partition("\n")[0].strip() == said
    return outer.message.strip().endswith(said)


def _in_toolchain(error: ErrorRecord) -> bool:
    if error.kind != "exception":
        return True
    raiser = error.frames[-1] if error.frames else None
    return raiser is not None and _is_toolchain(raiser)


def _is_toolchain(frame: Frame) -> bool:
    return frame.user is not True and (frame.lang == "cxx" or _TOOLCHAIN.search(frame.file) is not None)
