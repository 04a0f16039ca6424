"""Errors of other programs that print in the same streams: told by what only they print around a message. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from triage.model import ErrorRecord

#: a line of the stack that JavaScript, Java and C# print below a message: `    at JSON.parse (<anonymous>)`
_AT = re.compile(
    r"\s*at (?:async |new )?(?:(?:[\w$<>/@-]+\.)+[\w$<>]+(?: \[as \w+\])?(?: ?\([^\n]*\))?|[\w$<>]+ \([^\n]+:\d+(?::\d+)?\)"
    r"|[^\s()]+:\d+:\d+)\s*$"
)
NO_PYTHON = "a program that is not Python"
#: torch compiles C++ and CUDA sources of its users with ninja; TileLang does not go that way
_EXTENSION = re.compile(r"^Error (?:building|compiling objects for) extension\b", re.MULTILINE)
_BUILDER = re.compile(r"(?:^|[/\\])torch[/\\]utils[/\\]cpp_extension\.py$")
#: files that only a kernel of TileLang is compiled from
_KERNEL = re.compile(r"tl_templates|tvm_kernels|[/\\]tilelang[/\\]")
EXTENSION = "the build of a torch extension"


def name_printers(errors: Iterable[ErrorRecord]) -> list[ErrorRecord]:
    """The errors, those of other programs with `printed_by`."""
    named = [_printed_elsewhere(error) for error in errors]
    if any(_builds_extension(one) for error in named for one in _chain(error)):
        named = [_of_extension(error) for error in named]
    return named


def _printed_elsewhere(error: ErrorRecord) -> ErrorRecord:
    below = error.message.split("\n", 2)[1:2]
    foreign = error.kind == "exception" and not error.frames and below and _AT.match(below[0])
    return replace(error, printed_by=NO_PYTHON) if foreign else error


def _builds_extension(error: ErrorRecord) -> bool:
    return _EXTENSION.search(error.message) is not None or any(_BUILDER.search(frame.file) for frame in error.frames)


def _of_extension(error: ErrorRecord) -> ErrorRecord:
    """With all that compilers and the builder say; what another statement of the script raised stays what it is."""
    causes = tuple(map(_of_extension, error.causes))
    its_own = (error.kind == "compiler" and not _of_kernel(error)) or _builds_extension(error)
    return replace(error, causes=causes, printed_by=EXTENSION if its_own else error.printed_by)


def _of_kernel(error: ErrorRecord) -> bool:
    return any(_KERNEL.search(place) for place in (error.message, *(frame.file for frame in error.frames)))


def _chain(error: ErrorRecord) -> Iterator[ErrorRecord]:
    waiting: Sequence[ErrorRecord] = [error]
    while waiting:
        yield from waiting
        waiting = [cause for one in waiting for cause in one.causes]
