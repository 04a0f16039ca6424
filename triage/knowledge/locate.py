"""Where a finding points: the frame, argument, decorator or launch of the user's source that a rule asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath

from triage.knowledge import place, text
from triage.knowledge.environment import find_settings
from triage.knowledge.match import Record, raising_frame
from triage.knowledge.syntax import Columns, Imported, find_imported
from triage.model import FoundBy, Frame, Label, Location
from triage.ownership import owner_by_path

ReadSource = Callable[[str], "str | None"]

#: Places that belong to the function called, which may have been imported.
ELSEWHERE = ("argument", "decorator", "launch", "return")
#: Modules that an import is followed through: the one that defines the function may hand it on through a package.
MODULES = 3
#: Folders above the importing file that are tried for an absolute import.
FOLDERS = 3
#: The file of tilelang that runs the body of a kernel, and of the macros called there.
BUILDER = "tilelang/language/eager/builder.py"
#: A decorator that runs the kernel's body; one that is called with arguments may itself be what is wrong.
BUILDS = re.compile(r"\s*@\s*([\w.]+\s*(#.*)?$|[\w.]*\bprim_func\b)")


def no_source(file: str) -> str | None:
    """The `read_source` of a caller that has no files: nothing is known of `file`."""
    del file
    return None


def user_frame(record: Record) -> Frame | None:
    """The deepest frame known to be in a user's file: of the error itself, else of the error it was the cause of.

    The traceback of a cause starts where it was caught, so it may lie below all of the user's frames.
    """
    for error in (record.error, record.outer):
        for frame in reversed(error.frames if error else ()):
            if frame.user:
                return frame
    return None


def locate(
    wanted: str, argument: str | None, record: Record, read_source: ReadSource, stage: str | None = None
) -> Location | None:
    """The place a rule of `stage` asks for, or None if it is not known. `wanted` is one of `rule.PLACES`."""
    if wanted == "none":
        return None
    if record.error is None:
        return _with_snippet(record.at, read_source) if record.at else None
    named = [at for at in record.error.named if owner_by_path(at.file) is not False]
    if wanted == "text":
        found = find_named(argument or "", named, user_files(record), read_source)
        return found or (_named_while_running(argument or "", record, read_source) if stage == "dsl" else None)
    if wanted == "environment":
        return _find_setting((argument or "").split(), record, read_source)
    frame = user_frame(record)
    if wanted == "named" or (wanted == "frame" and frame is None):
        return _with_snippet(named[0], read_source) if named else None
    if frame is None:
        return _of_definition(wanted, argument, record, read_source)
    source = read_source(frame.file)
    if wanted == "frame":
        return _at_frame(frame, read_source) if credible(frame, record, source) else None
    if source is None:
        return None
    if not credible(frame, record, source):
        only = place.find_only_argument(source, frame.line, frame.function, argument or "")
        return _at_spot(frame.file, only, source) if only and wanted == "argument" else None
    columns = (frame.column, frame.end_column) if frame.column and frame.end_column else None
    return _find(wanted, argument or "", frame.file, source, frame.line, columns, read_source, MODULES)


def _of_definition(wanted: str, argument: str | None, record: Record, read_source: ReadSource) -> Location | None:
    """What decorates the kernel's own factory, for an error that a thread of a library raised: no call of the user's is
    on its stack, but it says which kernel it is about."""
    source = read_source(record.at.file) if record.at and wanted in ("argument", "decorator") else None
    if source is None or record.at is None:
        return None
    return _find(wanted, argument or "", record.at.file, source, record.at.line, None, read_source, 0)


def user_files(record: Record) -> list[str]:
    """The user's files that the error went through, the deepest first, then those that its text names."""
    errors = [error for error in (record.error, record.outer) if error]
    files = [f.file for error in errors for f in reversed(error.frames) if f.user]
    files += [at.file for error in errors for at in error.named if owner_by_path(at.file)]
    return list(dict.fromkeys(files))


def find_named(word: str, named: Sequence[Location], files: Sequence[str], read_source: ReadSource) -> Location | None:
    """The first of the places `named` whose statement has the word, else the only line of the files that has it."""
    for at in named:
        if names(at, word, read_source):
            return _with_snippet(at, read_source)
    sources = [(file, source) for file in files if (source := read_source(file)) is not None]
    found = [(file, source, line) for file, source in sources for line in text.lines_with(source, word)]
    if len(found) != 1:
        return None
    file, source, line = found[0]
    return Location(file, line, snippet=_line(source, line))


def _named_while_running(word: str, record: Record, read_source: ReadSource) -> Location | None:
    """Where an error names a word that stands in no line, or in several, while Python ran the user's own lines.

    The line that it was running, if that names the word; else the only one that names it in the functions that were
    running; else the only one where it is a constant that was given a name; else the line that it was running.
    """
    running = locate("frame", None, record, read_source)
    if running is not None and names(running, word, read_source):
        return running
    sources = {file: source for file in user_files(record) if (source := read_source(file)) is not None}
    errors = [error for error in (record.error, record.outer) if error]
    around: set[tuple[str, int]] = set()
    for frame in (frame for error in errors for frame in error.frames if frame.user and frame.file in sources):
        lines = place.lines_of_function(sources[frame.file], frame.function, frame.line)
        around |= {(frame.file, line) for line in lines or ()}
    inside = [
        (file, n) for file, source in sources.items() for n in text.lines_with(source, word) if (file, n) in around
    ]
    constants = [(file, n) for file, source in sources.items() for n in place.lines_that_name_constant(source, word)]
    for found in (inside, constants):
        if len(found) == 1:
            file, line = found[0]
            return Location(file, line, snippet=_line(sources[file], line))
    return running


def names(at: Location, word: str, read_source: ReadSource) -> bool:
    """Whether the statement at a place has the word."""
    source = read_source(at.file)
    return source is not None and any(
        place.same_statement(source, at.line, line) for line in text.lines_with(source, word)
    )


def _find_setting(variables: Sequence[str], record: Record, read_source: ReadSource) -> Location | None:
    """Where the script sets one of the environment variables; None if it does so nowhere, or in several lines."""
    sources = [(file, source) for file in user_files(record) if (source := read_source(file)) is not None]
    found = [
        (file, source, spot, value) for file, source in sources for spot, value in find_settings(source, variables)
    ]
    if len(found) != 1:
        return None
    file, source, spot, value = found[0]
    return _at_spot(file, spot, source) if value is None or value in (record.text or "") else None


def _find(
    wanted: str,
    argument: str,
    file: str,
    source: str,
    line: int,
    columns: Columns | None,
    read_source: ReadSource,
    hops: int,
) -> Location | None:
    """The place in this source, else in the module from which the function called at `line` was imported."""
    spot = _spot(wanted, argument, source, line, columns)
    if spot:
        return _at_spot(file, spot, source)
    for imported in find_imported(source, line, columns) if hops and wanted in ELSEWHERE else ():
        for other in _files_of(imported, file):
            module = read_source(other)
            if module is None:
                continue
            # asked as if the module itself called the function on a line after its last
            asking = f"{module.rstrip()}\n{imported.name}()\n"
            last = asking.count("\n")
            found = _find(wanted, argument, other, asking, last, None, read_source, hops - 1)
            if found and (found.file != other or found.line < last):
                return found
    return None


def _files_of(imported: Imported, file: str) -> list[str]:
    """Where the module may lie: beside the importing file, or for an absolute import in a folder above it."""
    folder = PurePath(file).parent
    if imported.level:
        starts = [[folder, *folder.parents][min(imported.level - 1, len(folder.parents))]]
    else:
        starts = [folder, *list(folder.parents)[:FOLDERS]]
    found = []
    for base in (start.joinpath(*imported.module) for start in starts):
        if imported.module:
            found.append(str(base.with_name(base.name + ".py")))
        found.append(str(base / "__init__.py"))
    return found


def _at_spot(file: str, spot: place.Spot, source: str) -> Location:
    line = (_lines(source)[spot.line - 1 :] or [""])[0]
    column = len(line.encode("utf-8", "replace")[: spot.column - 1].decode("utf-8", "ignore")) + 1
    return Location(file, spot.line, column, line.strip(), spot.function, FoundBy.FRAME)


def credible(frame: Frame, record: Record, source: str | None) -> bool:
    """Whether the frame's line can be the one that went wrong.

    Tilelang builds a kernel by running a rewritten copy of its function, and some statements of the copy (the header of
    a `for`) carry a line of the copy and not of the user's file: such a line lies outside the function. If the frame of
    the copy is missing altogether, the deepest one is the decorator, which only started the build, unless Python raised
    the error in that very line.
    """
    if BUILDS.match(frame.text) and not _raised_by_decorator(frame, record, source):
        return False
    if source is not None:
        inside = place.spans(source, frame.function, frame.line)
        if inside is not None:
            return inside
    frames = record.error.frames if record.error else ()
    decorated = [f for f in frames if f.file == frame.file and f.user and f.text.lstrip().startswith("@")]
    return frame.function == "<module>" or all(f.line <= frame.line for f in decorated)


def _raised_by_decorator(frame: Frame, record: Record, source: str | None) -> bool:
    """Whether a decorator's own line is at fault: nothing below raised the error, and it is the function around that runs
    it, as it runs a decorator before there is anything to build."""
    raised_here = record.error is not None and raising_frame(record.error) == frame
    return raised_here and source is not None and not place.decorates(source, frame.function, frame.line)


def _spot(wanted: str, argument: str, source: str, line: int, columns: Columns | None) -> place.Spot | None:
    match wanted:
        case "argument":
            return place.find_argument(source, line, argument, columns)
        case "assigned":
            return place.find_inner_assignment(source, line, argument)
        case "decorator":
            return place.find_decorator(source, line, columns)
        case "launch":
            return place.find_launch(source, line, columns)
        case "return":
            return place.find_return(source, line, columns)
    return place.find_call(source, line, columns)


def _at_frame(frame: Frame, read_source: ReadSource) -> Location:
    found = Location(frame.file, frame.line, frame.column, frame.text or None, frame.function or None, FoundBy.FRAME)
    return _with_snippet(found, read_source)


def _with_snippet(location: Location, read_source: ReadSource) -> Location:
    if location.snippet:
        return location
    source = read_source(location.file)
    return replace(location, snippet=_line(source, location.line)) if source else location


def _line(source: str, number: int) -> str | None:
    lines = _lines(source)
    return lines[number - 1].strip() if 0 < number <= len(lines) else None


def _lines(source: str) -> list[str]:
    """The lines as Python counts them; `splitlines` would also split at form feeds and Unicode separators."""
    return re.split(r"\r\n|\r|\n", source)


def _expansions(record: Record) -> list[Label]:
    """The calls inside a kernel that led into the macro, or the plain function, where its building failed, innermost first.

    A macro may be called in several places, of which only one need be wrong. What called the kernel itself is not meant.
    """
    error = record.error
    frames = error.frames if error else ()
    users = [n for n, frame in enumerate(frames) if frame.user]
    labels: list[Label] = []
    for outer, inner in zip(reversed(users[:-1]), reversed(users[1:]), strict=True):
        between = frames[outer + 1 : inner]
        if BUILDS.match(frames[outer].text) or not all(f.file.replace("\\", "/").endswith(BUILDER) for f in between):
            return labels
        labels.append(Label(frames[outer].file, frames[outer].line, f"{frames[inner].function} is called here"))
    return []  # nothing of it is known to stand in a kernel


def labels_of(record: Record, location: Location | None, read_source: ReadSource) -> tuple[Label, ...]:
    """The record's own labels, the lines its text names, and the user's deepest frame, but for the location itself."""
    labels = list(record.labels)
    if record.error:
        labels += [
            Label(named.file, named.line, "the error text names this line")
            for named in record.error.named
            if owner_by_path(named.file) is not False
        ]
    frame = user_frame(record)
    if frame and credible(frame, record, read_source(frame.file)):
        labels.append(Label(frame.file, frame.line, "the call that failed starts here"))
        labels += _expansions(record)
    taken = {(location.file, location.line)} if location else set()
    kept = []
    for label in labels:
        if (label.file, label.line) not in taken:
            taken.add((label.file, label.line))
            kept.append(label)
    return tuple(kept)
