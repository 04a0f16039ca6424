"""To which stage of a compile or a run an error belongs: `rules/reference/stages.toml` applied to an error record.

Where no frame tells the stage, the text does, if only sites of one stage print it (`sites.py`); where sites of several stages do,
all of these are named and none is chosen. Whose fault it may be follows from the site, too: a check that speaks about the
author's program is the kernel's, one that states what the compiler expects of itself is the compiler's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from triage.knowledge.files import FileError, read_table, taken_apart
from triage.knowledge.sites import Found, Site, Sites
from triage.model import STAGES, ErrorRecord, Frame, Owner

_PASS_CALL = re.compile(r"\btransform\.(?!PassContext\b)(?P<name>[A-Z]\w*)\(|\b(?P<check>PreLowerSemanticCheck)\(")
_SYNTAX_ERRORS = frozenset({"SyntaxError", "IndentationError", "TabError"})
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})
#: stages in which what TileLang refuses is the machine, not the program
_ENVIRONMENT = frozenset({"install", "import", "target"})
#: how many characters of a message are searched for wordings; messages may hold whole programs
_TEXT_LIMIT = 4_096


@dataclass(frozen=True)
class StageGuess:
    """`stage` is one of `model.STAGES` or None; `why` names the evidence in words.

    `candidates` are the stages that the text leaves open; only where there are several, and then `stage` is None.
    """

    stage: str | None
    pass_name: str | None
    owner_hint: Owner
    why: str
    candidates: tuple[str, ...] = ()


def stated(error: ErrorRecord) -> StageGuess:
    """What the record itself says, and nothing more."""
    return StageGuess(error.stage, error.pass_name, Owner.UNKNOWN, "stated by the record")


@dataclass(frozen=True)
class _Place:
    """Where errors of a stage are raised: beginnings (C++) or parts (Python) of paths, perhaps only some functions."""

    paths: tuple[str, ...]
    functions: frozenset[str]
    stage: str
    owner: Owner
    pass_name: str | None = None


@dataclass(frozen=True)
class _Wording:
    pattern: re.Pattern[str]
    certain: bool
    stage: str
    owner: Owner


class Stages:
    """The table, loaded once."""

    def __init__(
        self,
        passes: Mapping[str, str],
        cxx: Sequence[_Place],
        python: Sequence[_Place],
        wordings: Sequence[_Wording],
        phases: Mapping[str, str],
        sources: re.Pattern[str],
        inventory: Path,
    ) -> None:
        self._passes = passes
        self._cxx = cxx
        self._python = python
        self._wordings = wordings
        self._phases = phases
        self._sources = sources
        self._inventory = inventory

    @cached_property
    def sites(self) -> Sites:
        """Read when the first text needs it: most errors of a run say their stage by a frame."""
        return Sites.load(self._inventory)

    @classmethod
    def load(cls, path: Path) -> Stages:
        """The table at `path`, and the inventory of sites beside it. Raises `FileError`."""
        data = read_table(path)
        with taken_apart(path):
            return cls._of(data, path)

    @classmethod
    def _of(cls, data: Mapping[str, Any], path: Path) -> Stages:
        passes = {name: _stage(stage, path) for stage, names in data["passes"].items() for name in names}
        one_pass = [
            _Place((prefix,), frozenset(), passes.get(name, "compile"), Owner.UNKNOWN, name)
            for prefix, name in data["cxx_pass"].items()
        ]
        return cls(
            passes=passes,
            cxx=[*one_pass, *(_place(entry, path) for entry in data["cxx"])],
            python=[_place(entry, path) for entry in data["python"]],
            wordings=[_wording(entry, path) for entry in data["text"]],
            phases={phase: _stage(stage, path) for phase, stage in data["phase"].items()},
            sources=re.compile(data["sources"]["pattern"]),
            inventory=path.with_name("sites.jsonl"),
        )

    def stage_of(self, error: ErrorRecord) -> StageGuess:
        """The stage of `error`, by the first evidence there is, in the order that the table's head states."""
        if error.printed_by is not None:
            return StageGuess(None, None, Owner.UNKNOWN, f"printed by {error.printed_by}")
        if error.stage is not None:
            return replace(stated(error), owner_hint=self._owner(error))
        return next(
            self._guesses(error), StageGuess(None, error.pass_name, Owner.UNKNOWN, "nothing in it names a stage")
        )

    def _guesses(self, error: ErrorRecord) -> Iterator[StageGuess]:
        if error.type in _SYNTAX_ERRORS:
            yield StageGuess(None, None, Owner.KERNEL, "Python cannot parse the file")
        raised_by_author = _raised_by_author(error)
        if not raised_by_author:
            yield from self._by_wording(error, certain=True)
            if error.type in _IMPORT_ERRORS:
                yield StageGuess("import", None, Owner.ENVIRONMENT, f"an {error.type}")
        if error.kind == "compiler":
            yield from self._by_source(error)
            yield StageGuess("device-compile", None, Owner.UNKNOWN, f"a message of {error.type}")
        yield from self._by_pass(error)
        yield from self._by_cxx(error)
        yield from self._by_python(error)
        if not raised_by_author:
            yield from self._by_text(error)
            yield from self._by_function(error)
            yield from self._by_wording(error, certain=False)
        if error.phase is not None and error.phase in self._phases:
            yield StageGuess(self._phases[error.phase], None, Owner.UNKNOWN, f"raised during {error.phase}")
        if error.kind == "signal":
            yield StageGuess("runtime", None, Owner.UNKNOWN, f"the process died of {error.type}")

    def _by_wording(self, error: ErrorRecord, certain: bool) -> Iterator[StageGuess]:
        text = error.message[:_TEXT_LIMIT]
        for wording in self._wordings:
            if wording.certain == certain and (match := wording.pattern.search(text)):
                yield StageGuess(
                    wording.stage, self._running_pass(error), wording.owner, f"the wording “{match[0].strip()}”"
                )

    def _by_source(self, error: ErrorRecord) -> Iterator[StageGuess]:
        for frame in reversed(error.frames):
            if self._sources.search(frame.file.replace("\\", "/")):
                yield StageGuess("install", None, Owner.ENVIRONMENT, f"{frame.file} is built from source")

    def _by_pass(self, error: ErrorRecord) -> Iterator[StageGuess]:
        name = error.pass_name or self._running_pass(error)
        if name is not None:
            stage = self._passes.get(name.rpartition(".")[2], "compile")
            yield StageGuess(stage, name, self._owner(error), f"pass {name} was running")

    @staticmethod
    def _running_pass(error: ErrorRecord) -> str | None:
        for frame in reversed(error.frames):
            match = _PASS_CALL.search(frame.text) if frame.user is not True else None
            if match is not None:
                return match["name"] or match["check"]
        return None

    def _by_cxx(self, error: ErrorRecord) -> Iterator[StageGuess]:
        for frame in reversed(error.frames):
            path = source_path(frame)
            if path is None:
                continue
            for place in self._cxx:
                if path.startswith(place.paths):
                    yield StageGuess(place.stage, place.pass_name, self._owner(error, place), f"raised below {path}")

    def _by_python(self, error: ErrorRecord) -> Iterator[StageGuess]:
        for frame in reversed(error.frames):
            if frame.lang != "python" or frame.user is True:
                continue
            path = module_path(frame.file)
            for place in self._python:
                if any(part in path for part in place.paths) and (
                    not place.functions or frame.function in place.functions
                ):
                    yield StageGuess(place.stage, place.pass_name, self._owner(error, place), f"raised below {path}")

    def _by_text(self, error: ErrorRecord) -> Iterator[StageGuess]:
        found = self._found(error)
        stages = tuple(stage for stage in found.stages if stage is not None)
        if not stages or len(stages) < len(found.stages):
            return
        pass_name = found.passes[0] if len(found.passes) == 1 else None
        owner = _owner_of(found)
        if len(stages) == 1:
            yield StageGuess(stages[0], pass_name, owner, f"the text of {_places(found)}")
        else:
            why = f"the text is printed in the stages {', '.join(stages)}"
            yield StageGuess(None, pass_name, owner, why, stages)

    def _by_function(self, error: ErrorRecord) -> Iterator[StageGuess]:
        """The innermost C++ function without a file whose checks all belong to one stage: the text is cut, or not a site's."""
        for frame in reversed(error.frames):
            name = _scoped(frame) if frame.lang == "cxx" and frame.file == "<unknown>" else None
            stages = {site.stage for site in self.sites.in_scope(name)} if name else set()
            if len(stages) == 1 and (stage := stages.pop()):
                yield StageGuess(stage, None, Owner.UNKNOWN, f"raised below {name}")

    def _found(self, error: ErrorRecord) -> Found:
        """The sites that can have raised the error: by its text, and by the raising frame as far as it was seen."""
        raiser = error.frames[-1] if error.frames else None
        path = None
        if raiser is not None and raiser.file not in ("", "<unknown>"):
            path = source_path(raiser) if raiser.lang == "cxx" else module_path(raiser.file)
            if raiser.user is True or path is None:
                return Found()
        found = self.sites.find(error.type, error.message, path)
        named = tuple(site for site in found.sites if _names(error.frames, site))
        return Found(named, found.whole) if named else found

    def _owner(self, error: ErrorRecord, place: _Place | None = None) -> Owner:
        """Whose fault it may be: the machine's where its place says so, else as the site says, else unknown."""
        if place is not None and place.owner is Owner.ENVIRONMENT:
            return place.owner
        return _owner_of(self._found(error))


def _owner_of(found: Found) -> Owner:
    if found.author is None:
        return Owner.UNKNOWN
    if any(site.stage in _ENVIRONMENT for site in found.sites):
        return Owner.ENVIRONMENT
    if found.author:
        return Owner.KERNEL
    return Owner.COMPILER if all(site.file.startswith("src/") for site in found.sites) else Owner.UNKNOWN


def _scoped(frame: Frame) -> str | None:
    """`CopyNode::Lower` of `tvm::tl::CopyNode::Lower(tvm::tl::LowerArgs const&) const`; None for a free function."""
    scope = frame.function.partition("(")[0].removeprefix("tvm::").split("::")
    return "::".join(scope[-2:]) if len(scope) > 2 and scope[-2][:1].isupper() else None


def _names(frames: Sequence[Frame], site: Site) -> bool:
    """Whether a C++ frame without a file is in the site's function."""
    return bool(site.function) and any(f"::{site.function}" in f.function for f in frames if f.lang == "cxx")


def _places(found: Found) -> str:
    files = sorted({site.file for site in found.sites})
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def source_path(frame: Frame) -> str | None:
    """A C++ frame's path in tilelang's source tree (`src/…`, `3rdparty/tvm/src/…`), wherever it was built; else None."""
    if frame.lang != "cxx":
        return None
    file = frame.file.replace("\\", "/")
    for root in ("3rdparty/tvm/", "src/"):
        at = file.rfind("/" + root)
        if at >= 0:
            return file[at + 1 :]
    return file if file.startswith(("src/", "3rdparty/")) else None


def module_path(file: str) -> str:
    """A Python file's path from its top-level package on: after `site-packages/`, or from the last `tilelang/`."""
    file = file.replace("\\", "/")
    for root in ("/site-packages/", "/dist-packages/"):
        at = file.rfind(root)
        if at >= 0:
            return file[at + len(root) :]
    at = file.rfind("/tilelang/")
    return file[at + 1 :] if at >= 0 else file


def _raised_by_author(error: ErrorRecord) -> bool:
    """The user's own `raise` or `assert` may use any words; they say nothing about the toolchain."""
    raiser = error.frames[-1] if error.frames else None
    return raiser is not None and raiser.user is True and raiser.text.startswith(("raise", "assert"))


def _stage(name: str, path: Path) -> str:
    if name not in STAGES:
        raise FileError(path, None, f"no stage is called {name!r}")
    return name


def _place(entry: Mapping[str, Any], path: Path) -> _Place:
    return _Place(
        tuple(entry["path"]),
        frozenset(entry.get("function", ())),
        _stage(entry["stage"], path),
        Owner(entry.get("owner", "unknown")),
    )


def _wording(entry: Mapping[str, Any], path: Path) -> _Wording:
    return _Wording(
        re.compile(entry["pattern"]),
        bool(entry.get("certain")),
        _stage(entry["stage"], path),
        Owner(entry.get("owner", "unknown")),
    )
