"""Make a failing script small while it shows the same fault. Pure but for what the caller's trials do.

In this order, each step only a question of fewer runs:

1. in one cut what only readers see (comments, docstrings), what never ran, and what the raising line does not need by name
2. statements, from the last to the first and from the outside in, more at a time as long as it goes well
3. a `with`, `if`, `for` or `try` around what is left: its body alone; a function called once: its body; a call: one inside it
4. parameters that nothing reads, numbers, arguments, decorators, elements
5. from 2 on, until no statement goes any more

A cut that leaves a name without a binding, or a call that does not fit, is not tried (`names.py`): it would show that.
The best so far is handed to `keep` whenever it gets better, so a kill loses nothing.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from triage.experiment import parts
from triage.experiment.minimal import OutOfBudget
from triage.experiment.names import Loose, loose
from triage.experiment.source import Piece, acts, bare, opened, pieces, without

T = TypeVar("T", Piece, parts.Part)
#: how many of a kind are tried at once to begin with
FIRST = 4


@dataclass(frozen=True)
class Found:
    """A text that shows the fault, and its lines that the fault went through, the raising one last."""

    text: str
    raising: tuple[int, ...] = ()


@dataclass
class Reducer:
    """`first(texts)` finds the first of some texts, in their order, that shows the fault; it may raise `OutOfBudget`.
    `keep(text)` is told the best."""

    source: str
    first: Callable[[Iterator[str]], Found | None]
    keep: Callable[[str], None] = lambda text: None
    #: lines of `source` that ran, None where nobody watched
    executed: Collection[int] | None = None
    #: the lines of `source` that the fault went through, the raising one last
    raising: tuple[int, ...] = ()
    finished: bool = False
    _at_start: Loose | None = None
    _acts: frozenset[str] = frozenset()
    _refused: set[str] = field(default_factory=set)
    #: statements as tuples of their lines, and kinds of parts, that could not go
    _needed: set[Hashable] = field(default_factory=set)

    def run(self) -> str:
        """The smallest text found. `finished` says whether no statement could be taken away any more."""
        self._at_start, self._acts = loose(self.source), acts(self.source)
        try:
            self._cut_at_once()
            self._statements()
            while not self.finished:
                before = self.source
                self._change(_unwrapped)
                self._statements()
                self._change(parts.smaller_numbers)
                self._take_away(self._optional, parts.without_parts)
                self._statements()
                if self.source == before:  # what was needed at first may not be any more
                    self._needed -= {one for one in self._needed if isinstance(one, tuple)}
                    self._statements()
                    self.finished = self.source == before
        except OutOfBudget:
            pass
        return self.source

    def _try(self, texts: Iterable[str]) -> tuple[int | None, list[int]]:
        """Go on with the first of some smaller texts that shows the fault: its place among them, and the places of those
        that were run before it and do not show it."""
        places: dict[str, int] = {}

        def hopeful() -> Iterator[str]:
            for place, text in enumerate(texts):
                if text != self.source and text not in self._refused and text not in places and self._sound(text):
                    places[text] = place
                    yield text

        found = self.first(hopeful())
        refused = [text for text in places if found is None or places[text] < places[found.text]]
        self._refused.update(refused)
        if found is not None:
            self.source, self.raising = found.text, found.raising
            self.keep(found.text)
        return (None if found is None else places[found.text]), [places[text] for text in refused]

    def _sound(self, text: str) -> bool:
        """Whether a text compiles, has no loose ends that the start had not, and acts on the world as the start or less."""
        left = loose(text)
        return left is not None and (self._at_start is None or left.within(self._at_start)) and acts(text) <= self._acts

    def _cut_at_once(self) -> None:
        """Guesses that take away much in one trial: what never ran, and what the fault does not need by name."""
        idle = _never_ran(self.source, self.executed) if self.executed is not None else []
        needless = _needless(self.source, self.raising) if self.raising else []
        cuts = [without(self.source, _outermost(guess)) for guess in ([*idle, *needless], idle, needless) if guess]
        clean = [bare(text) for text in (*cuts, self.source)]
        self._try([*map(_without_unread, clean), *clean, *cuts])

    def _statements(self) -> None:
        """Take statements away, level by level; what stays is looked into."""
        self._try([_without_unread(self.source)])
        depth = 0
        while any(_depth(piece) == depth for piece in pieces(self.source)):
            self._take_away(functools.partial(self._idle, depth), without)
            depth += 1

    def _idle(self, depth: int) -> list[tuple[Piece, Hashable]]:
        """The statements of a level that may go: those through which the fault goes may not."""
        lines = self.source.splitlines()
        return [
            (piece, tuple(lines[piece.start - 1 : piece.end]))
            for piece in pieces(self.source)
            if _depth(piece) == depth and not any(line in piece.lines for line in self.raising)
        ]

    def _optional(self) -> list[tuple[parts.Part, Hashable]]:
        return [(part, part.kind) for part in parts.optional(self.source)]

    def _take_away(
        self, things: Callable[[], list[tuple[T, Hashable]]], cut: Callable[[str, Sequence[T]], str]
    ) -> None:
        """Take away things that a text holds, from the last to the first, since a name is read after it is bound; after a
        success twice as many at a time. Each comes with its kind: of a kind that was needed no other is tried."""
        before, size = math.inf, FIRST
        while True:
            here = [(thing, kind) for thing, kind in things() if kind not in self._needed and thing.start < before]
            end = len(here)
            sizes = [size >> n for n in range(size.bit_length()) if size >> n <= end]
            spans = [(end - s, end) for s in sizes] + [(low, low + 1) for low in reversed(range(end - 1))]
            texts = (cut(self.source, [thing for thing, _ in here[low:high]]) for low, high in spans)
            place, refused = self._try(texts)
            alone = (spans[one][0] for one in refused if spans[one][1] == spans[one][0] + 1)
            self._needed |= {here[low][1] for low in alone if here[low][1] is not None}
            if place is None:
                return
            low, high = spans[place]
            before, size = here[low][0].start, 2 * (high - low)

    def _change(self, smaller: Callable[[str], Iterator[str]]) -> None:
        """Make one change after another; after each the text is read anew and gone on from there."""
        at, done = self._try(smaller(self.source))[0], 0
        while at is not None:
            done += at
            at = self._try(itertools.islice(smaller(self.source), done, None))[0]


# ------------------------------------------------------------------------------------------------------------ guesses


def _never_ran(source: str, executed: Collection[int]) -> list[Piece]:
    """Pieces of which no line ran."""
    return [piece for piece in pieces(source) if not any(line in executed for line in piece.lines)]


def _needless(source: str, raising: tuple[int, ...]) -> list[Piece]:
    """Pieces that bind no name which the raising lines need, directly or through others. Only a guess: what a statement
    does besides binding names is not seen."""
    tree = ast.parse(source)
    everything = pieces(source)
    needed = {piece for piece in everything if any(line in piece.lines for line in raising)}
    grown = True
    while grown:
        names = {name for piece in needed for name in _names(tree, piece, needed, everything, ast.Load)}
        more = {
            piece for piece in everything
            if piece not in needed and names & set(_names(tree, piece, {piece}, everything, ast.Store))
        }  # fmt: skip
        for piece in list(more):
            while piece.parent is not None:
                piece = piece.parent
                more.add(piece)
        more -= needed
        needed |= more
        grown = bool(more)
    return [piece for piece in everything if piece not in needed]


def _names(
    tree: ast.Module, piece: Piece, needed: Collection[Piece], everything: list[Piece], context: type
) -> Iterator[str]:
    """Names that a piece loads or stores, but for those in pieces inside it that are not needed."""
    left_out = {
        line for other in everything if other.parent == piece and other not in needed for line in other.lines
    } if context is ast.Load else set()  # fmt: skip
    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if line is None or line not in piece.lines or line in left_out:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, context):
            yield node.id
        elif context is ast.Store and isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif context is ast.Store and isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]
        elif context is ast.Store and isinstance(node, ast.arg):
            yield node.arg


def _outermost(guess: list[Piece]) -> list[Piece]:
    chosen = set(guess)
    return [piece for piece in guess if piece.parent not in chosen]


def _depth(piece: Piece) -> int:
    return 0 if piece.parent is None else _depth(piece.parent) + 1


def _without_unread(source: str) -> str:
    """The text without parameters that nothing reads, statements that only bind such names, bodies of nothing but `pass`."""
    while True:
        source = parts.without_parts(source, parts.idle_parameters(source))
        tree = ast.parse(source)
        imports = (n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)))
        modules = {(name.asname or name.name).split(".")[0] for node in imports for name in node.names}
        read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
        read |= {n.target.id for n in ast.walk(tree) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
        vain = {n.lineno for n in ast.walk(tree) if isinstance(n, ast.stmt) and _in_vain(n, read, modules)}
        gone = [piece for piece in pieces(source) if piece.start in vain]
        smaller = without(source, _outermost(gone))
        if smaller == source:
            return source
        source = smaller


def _in_vain(node: ast.stmt, read: Collection[str], modules: Collection[str]) -> bool:
    """Whether a statement binds only names that are not in `read`, and calls nothing but what `modules` hold."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return all((name.asname or name.name).split(".")[0] not in read and name.name != "*" for name in node.names)
    if isinstance(node, ast.Assign):
        stored = [n for target in node.targets for n in ast.walk(target) if not isinstance(n, (ast.Tuple, ast.Store))]
        called = [ast.unparse(n.func) for n in ast.walk(node.value) if isinstance(n, ast.Call)]
        foreign = all("." in name and name.split(".")[0] in modules for name in called)
        return foreign and all(isinstance(n, ast.Name) and n.id not in read for n in stored)
    body = getattr(node, "body", None)
    return isinstance(node, (ast.With, ast.If, ast.For)) and all(isinstance(n, ast.Pass) for n in body or [node])


# ----------------------------------------------------------------------------------------------------------- changes


def _unwrapped(source: str) -> Iterator[str]:
    """Texts with one thing replaced by what is inside it."""
    for piece in pieces(source):
        text = opened(source, piece)
        if text is not None:
            yield text
    yield from parts.inlined(source)
    yield from parts.inner_calls(source)
