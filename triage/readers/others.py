"""Errors of other programs that print in the same streams: told by what only they print around a message. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from triage.model import ErrorRecord
from triage.readers.lines import Line

#: a line of the stack that JavaScript, Java and C# print below a message: `    at JSON.parse (<anonymous>)`
_AT = re.compile(
    r"\s*at (?:async |new )?(?:(?:[\w$<>/@-]+\.)+[\w$<>]+(?: \[as \w+\])?(?: ?\([^\n]*\))?|[\w$<>]+ \([^\n]+:\d+(?::\d+)?\)"
    r"|[^\s()]+:\d+:\d+)\s*$"
)
#: packages in which those name their errors
_NO_PYTHON_TYPE = re.compile(r"(?:java|javax|kotlin|scala|System)\.")
NO_PYTHON = "a program that is not Python"
#: torch compiles C++ and CUDA sources of its users with ninja; TileLang does not go that way
_EXTENSION = re.compile(r"^Error (?:building|compiling objects for) extension\b", re.MULTILINE)
_BUILDER = re.compile(r"(?:^|[/\\])torch[/\\]utils[/\\]cpp_extension\.py$")
#: files that only a kernel of TileLang is compiled from
_KERNEL = re.compile(r"tl_templates|tvm_kernels|[/\\]tilelang[/\\]")
#: a line of make, ninja or CMake about an object that was compiled of a source, and names of the project whose builds are read
_OBJECT = re.compile(
    r"(?:g?make(?:\[\d+\])?: \*\*\*|FAILED: |(?:\[[\s\d%/]+\] )?Building \w+ object)[^\n]{0,300}?(?P<object>[\w.+-]{1,100})\.o(?:bj)?\b"
)
_OURS = re.compile(r"tile-?lang|\btvm", re.IGNORECASE)
BUILD = "the build of another program"
EXTENSION = "the build of a torch extension"


def name_printers(errors: Iterable[ErrorRecord], lines: Sequence[Line]) -> list[ErrorRecord]:
    """The errors that were read from `lines`, those of other programs with `printed_by`."""
    named = [_printed_elsewhere(error) for error in errors]
    if any(error.kind == "compiler" for error in named):
        objects = _objects_of_others(lines)
        named = [replace(error, printed_by=BUILD) if _makes(error, objects) else error for error in named]
    if any(_builds_extension(one) for error in named for one in _chain(error)):
        named = [_of_extension(error) for error in named]
    return named


def _printed_elsewhere(error: ErrorRecord) -> ErrorRecord:
    below = error.message.split("\n", 2)[1:2]
    bare = error.kind == "exception" and not error.frames
    foreign = bare and (_NO_PYTHON_TYPE.match(error.type) or (below and _AT.match(below[0])))
    return replace(error, printed_by=NO_PYTHON) if foreign else error


def _objects_of_others(lines: Sequence[Line]) -> set[str]:
    """What make, ninja and CMake built, where no line says that it was TileLang or TVM: `kernel.cu` of `kernel.cu.o`."""
    objects = {match["object"] for line in lines if (match := _OBJECT.match(line.view))}
    return set() if objects and any(_OURS.search(line.view) for line in lines) else objects


def _makes(error: ErrorRecord, objects: set[str]) -> bool:
    """Whether a compiler's error is about the source of one of the objects."""
    names = {frame.file.replace("\\", "/").rpartition("/")[2] for frame in error.frames}
    return error.kind == "compiler" and any({name, name.rpartition(".")[0]} & objects for name in names)


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
