"""What a strategy is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from triage.fixes.nicknames import Nicknames
from triage.fixes.tree import Edit, Source, Sources
from triage.fixes.vocabulary import Vocabulary
from triage.model import ErrorRecord, Finding, Frame, KernelRecord


@dataclass(frozen=True)
class Question:
    """A fault, and all that a repair may be read from. `records` are the kernels that the failing run captured."""

    finding: Finding
    sources: Sources
    error: ErrorRecord | None = None
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    records: tuple[KernelRecord, ...] = ()
    #: what would lower instead, as `threads = 128`, where experiments found that
    neighbours: tuple[str, ...] = ()
    #: what a lint measured, as `hazard.buffer`
    fields: Mapping[str, Any] = field(default_factory=dict)
    #: what other libraries call things
    nicknames: Nicknames = field(default_factory=Nicknames)

    @property
    def captures(self) -> Mapping[str, Any]:
        return self.finding.captures

    def places(self) -> Iterator[tuple[Source, int]]:
        """The accused line first, then the user's lines on the way to it, the deepest first."""
        at = self.finding.location
        places = [(at.file, at.line)] if at else []
        frames: tuple[Frame, ...] = self.error.frames if self.error else ()
        places += [(frame.file, frame.line) for frame in reversed(frames) if frame.user]
        places += [(label.file, label.line) for label in self.finding.labels]
        for file, line in dict.fromkeys(places):
            source = self.sources.get(file)
            if source is not None:
                yield source, line


#: a tile of another type than its tensor says something only about a change of types, and that a loop reads a part of a
#: tensor only about a change of its indices
USUAL_DOUBTS = frozenset({"unused", "output", "tiles", "elements", "interface"})


@dataclass(frozen=True)
class Proposal:
    """A repair to be tried.

    `doubts`: the kinds of doubt (`meaning.py`) about what it touches that speak against it. `tuning`: it changes how the
    kernel is run (threads, stages, tile sizes), never what it computes. `host`: it changes the host's side, which the
    record of a kernel does not show, so that two such repairs never mean the same. `distance`: how far it is from what is
    written (letters of a name; variables that are left out); of several that mean different things, only the one nearest
    may be chosen. `guess`: why it is never called verified, for a repair that nothing but the end of the error speaks for.
    """

    title: str
    edits: tuple[Edit, ...]
    doubts: frozenset[str] = USUAL_DOUBTS
    tuning: bool = False
    host: bool = False
    distance: float = 0.0
    guess: str = ""


Strategy = Callable[[Question], Iterable[Proposal]]
