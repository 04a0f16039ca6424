"""Make a failing script small while it shows the same fault. Pure but for what the caller's trial does.

In this order, each step only a question of fewer runs:

1. what only readers see: comments, docstrings, blank lines
2. what never ran, in one cut
3. what the raising line does not depend on by name, in one cut
4. delta debugging over statements, from the outside in
5. a `with`, `if`, `for` or `try` around what is left: its body alone
6. arguments, decorators and elements that are not needed; numbers made smaller

The best so far is handed to `keep` whenever it gets better, so a kill loses nothing. Every trial is a text; the caller
remembers what a text showed.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from triage.experiment.minimal import OutOfBudget, minimize
from triage.experiment.source import Piece, bare, opened, pieces, without


@dataclass
class Reducer:
    """`holds(text)` says whether a text shows the fault and may raise `OutOfBudget`; `keep(text)` is told the best."""

    source: str
    holds: Callable[[str], bool]
    keep: Callable[[str], None] = lambda text: None
    #: lines of `source` that ran, None where nobody watched
    executed: Collection[int] | None = None
    #: the lines of `source` that the fault went through, the raising one last
    raising: tuple[int, ...] = ()
    finished: bool = False

    def run(self) -> str:
        """The smallest text found. `finished` says whether nothing more could be taken away."""
        try:
            self._cut_at_once()
            before = None
            while before != self.source:
                before = self.source
                self._statements()
                self._wrappers()
                self._parts()
            self.finished = True
        except OutOfBudget:
            self.finished = False
        return self.source

    def _try(self, text: str) -> bool:
        if text == self.source or not _parses(text):
            return False
        if not self.holds(text):
            return False
        self.source = text
        self.keep(text)
        return True

    def _cut_at_once(self) -> None:
        """Guesses that take away much in one trial: what never ran, and what the fault does not need by name."""
        idle = _idle(self.source, self.executed) if self.executed is not None else []
        needless = _needless(self.source, self.raising) if self.raising else []
        for guess in ([*idle, *needless], idle, needless):
            if guess and self._try(without(self.source, _outermost(guess))):
                break
        self._try(bare(self.source))

    def _statements(self) -> None:
        """Delta debugging, level by level; what stays is looked into."""
        depth = 0
        while True:
            level = [piece for piece in pieces(self.source) if _depth(piece) == depth]
            if not level:
                return

            def still(some: list[Piece], base: str = self.source, level: list[Piece] = level) -> bool:
                text = without(base, [piece for piece in level if piece not in some])
                return text == self.source or self._try(text)

            minimize(level, still)
            depth += 1

    def _wrappers(self) -> None:
        again = True
        while again:
            again = any((text := opened(self.source, p)) is not None and self._try(text) for p in pieces(self.source))

    def _parts(self) -> None:
        """Parts of statements, from the first to the last; after a success the text is read anew and gone on from there."""
        at, again = 0, True
        while again:
            again = False
            for text in itertools.islice(_smaller(self.source), at, None):
                if self._try(text):
                    again = True
                    break
                at += 1


# ------------------------------------------------------------------------------------------------------------ guesses


def _idle(source: str, executed: Collection[int]) -> list[Piece]:
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


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


# ------------------------------------------------------------------------------------------------- parts of statements


def _smaller(source: str) -> Iterator[str]:
    """Texts with one thing made smaller: a parameter, an argument, a decorator or an element gone, a number less."""
    tree = ast.parse(source)
    lines = source.splitlines()
    yield from _fewer_parameters(tree, lines)
    yield from _smaller_numbers(tree, source)
    for node in ast.walk(tree):
        for low, high in _parts(node):
            yield _cut(lines, low, high)


def _fewer_parameters(tree: ast.Module, lines: list[str]) -> Iterator[str]:
    """One parameter of a function gone, and what every call by the function's name passes for it."""
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        given = function.args
        if given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg:
            continue
        calls = [
            n for n in ast.walk(tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == function.name
        ]  # fmt: skip
        plain = len(given.args) - len(given.defaults)
        ends: list[ast.AST] = [*given.args[:plain], *given.defaults]
        for index, parameter in enumerate(given.args):
            spots = [_spot_of(list(given.args), index, ends)]
            for call in calls:
                parts: list[ast.AST] = [*call.args, *call.keywords]
                named = [n for n, k in enumerate(parts) if isinstance(k, ast.keyword) and k.arg == parameter.arg]
                for at in [index] if index < len(call.args) else named:
                    spots.append(_spot_of(parts, at, parts))
            text = "\n".join(lines) + "\n"
            for low, high in sorted(spots, reverse=True):
                text = _cut(text.splitlines(), low, high)
            yield text


def _smaller_numbers(tree: ast.Module, source: str) -> Iterator[str]:
    """One number halved wherever it stands: a size is written at the tensor, at the tile and at the call."""
    numbers = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is int}
    for number in sorted((n for n in numbers if n > SMALL), reverse=True):
        for smaller in dict.fromkeys((SMALL, 4 * SMALL, number // 2)):
            if smaller < number:
                yield re.sub(rf"(?<![\w.]){number}(?![\w.])", str(smaller), source)


#: numbers up to this are left as they are
SMALL = 4

Spot = tuple[int, int]


def _parts(node: ast.AST) -> Iterator[tuple[Spot, Spot]]:
    """Where the decorators, arguments and elements of a node are, the last first."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        for decorator in node.decorator_list:
            yield (decorator.lineno, 0), (decorator.end_lineno or 0, -1)
    parts: list[ast.AST] = []
    if isinstance(node, ast.Call):
        parts = [*node.args, *node.keywords]
    elif isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > 1:
        parts = list(node.elts)
    for index in reversed(range(len(parts))):
        yield _spot_of(parts, index, parts)


def _spot_of(parts: list[ast.AST], index: int, ends: list[ast.AST]) -> tuple[Spot, Spot]:
    """Where a part is, with one comma beside it; it reaches to the end of its `ends`."""
    if index + 1 < len(parts):
        return _low(parts[index]), _low(parts[index + 1])
    if index:
        return _high(ends[index - 1]), _high(ends[index])
    return _low(parts[index]), _high(ends[index])


def _low(node: ast.AST) -> Spot:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _high(node: ast.AST) -> Spot:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)


def _cut(lines: list[str], low: Spot, high: Spot) -> str:
    """The text without what is between two spots; columns count bytes, and -1 is the end of the line."""
    first, last = lines[low[0] - 1].encode(), lines[high[0] - 1].encode()
    end = len(last) if high[1] < 0 else high[1]
    middle = (first[: low[1]] + last[end:]).decode(errors="replace")
    kept = [middle] if middle.strip() else []
    return "\n".join([*lines[: low[0] - 1], *kept, *lines[high[0] :]]) + "\n"
