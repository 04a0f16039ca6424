"""Extents that do not fit: tiles of a T.gemm, of a copy, outputs of a reduction, and the number of indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from triage.fixes import tree
from triage.fixes.buffers import Shape, declared, indices, named, shape_of, with_indices
from triage.fixes.proposal import USUAL_DOUBTS, Proposal, Question
from triage.fixes.tree import Edit, Source

#: index expressions of the same function that are tried where one is missing
MOST_INDICES = 4
#: without one of its variables an access may well read a part of its tensor only, again and again
OF_INDICES = USUAL_DOUBTS | {"part"}


@dataclass(frozen=True)
class Gemm:
    """A T.gemm as it is written, with the written shapes of its operands where there are some."""

    source: Source
    call: cst.Call
    shapes: tuple[Shape | None, Shape | None, Shape | None]
    names: tuple[str, str, str]

    def flag(self, which: str) -> tuple[cst.Arg | None, bool]:
        """The argument `transpose_A` or `transpose_B`, and its value (False where it is no constant)."""
        arg = tree.argument(self.call, 3 if which == "transpose_A" else 4, which)
        return arg, isinstance(arg.value, cst.Name) and arg.value.value == "True" if arg else False

    def dim(self, operand: int, axis: str) -> int:
        """Which of the last two dimensions of an operand is M, N or K."""
        if operand == 2:
            return -2 if axis == "M" else -1
        rows = axis == "M" if operand == 0 else axis == "K"
        swapped = self.flag("transpose_A" if operand == 0 else "transpose_B")[1]
        return -2 if rows != swapped else -1


def gemms(q: Question) -> Iterator[Gemm]:
    """The gemm calls of the accused statement, else those on the way to it."""
    for source, line in q.places():
        found = False
        for call in source.at(cst.Call, line):
            if "gemm" not in tree.name_of(call):
                continue
            operands = [tree.argument(call, n, name) for n, name in enumerate("ABC")]
            if any(arg is None for arg in operands):
                continue
            found = True
            values = [arg.value for arg in operands if arg is not None]
            shapes = [shape_of(q.sources, declared(q.sources, source, value)) for value in values]
            yield Gemm(source, call, tuple(shapes), tuple(source.code(v) for v in values))  # type: ignore[arg-type]
        if found:
            return


def swap_tile_dims(q: Question) -> Iterator[Proposal]:
    """The last two extents of a tile exchanged, for each buffer of the accused statement."""
    for source, line in q.places():
        done: set[int] = set()
        for name in source.at(cst.Name, line):
            buffer = declared(q.sources, source, name)
            shape = shape_of(q.sources, buffer)
            if buffer is None or buffer.parameter or shape is None or id(shape.node) in done:
                continue
            done.add(id(shape.node))
            if len(shape.dims) >= 2 and shape.text(-1) != shape.text(-2):
                yield Proposal(f"Swap the last two extents of {name.value}", (shape.swapped(),))
        if done:
            return


def transpose_flag(q: Question) -> Iterator[Proposal]:
    """transpose_A or transpose_B set, or taken away."""
    for gemm in gemms(q):
        for which in ("transpose_B", "transpose_A"):
            arg, is_set = gemm.flag(which)
            if arg is None:
                edit = Edit(gemm.source.path, gemm.call, tree.with_keyword(gemm.call, which, "True"))
                yield Proposal(f"Pass {which}=True", (edit,))
            elif isinstance(arg.value, cst.Name) and arg.value.value in ("True", "False"):
                value = cst.Name("False" if is_set else "True")
                yield Proposal(f"Pass {which}={value.value}", (Edit(gemm.source.path, arg.value, value),))


def tile_extent(q: Question) -> Iterator[Proposal]:
    """One operand of a T.gemm given the extent that the other has."""
    axis = str(q.captures.get("axis") or "K")
    pairs = {"K": (0, 1), "M": (0, 2), "N": (1, 2)}
    for gemm in gemms(q):
        for one, other in itertools.permutations(pairs.get(axis, (0, 1))):
            mine, theirs = gemm.shapes[one], gemm.shapes[other]
            if mine is None or theirs is None or len(mine.dims) < 2 or len(theirs.dims) < 2:
                continue
            dim, text = gemm.dim(one, axis), theirs.text(gemm.dim(other, axis))
            if mine.text(dim) != text:
                title = f"Allocate {gemm.names[one]} with the {axis} extent {text} of {gemm.names[other]}"
                yield Proposal(title, (mine.replaced(dim, text),))


# ------------------------------------------------------------------------------------------------------------ indices


def index_rank(q: Question) -> Iterator[Proposal]:
    """A buffer accessed with too many indices or too few."""
    rank, buffer = q.captures.get("rank"), str(q.captures.get("buffer") or "")
    if not isinstance(rank, int):
        return
    for source, line in q.places():
        wrong = [s for s in named(source, line, buffer) if len(s.slice) != rank and not _is_inner(source, s)]
        if not wrong:
            continue
        subscript = wrong[0]
        written = indices(subscript)
        for texts in _like_siblings(source, subscript, rank):
            yield _indexed(q, source, subscript, texts)
        if len(written) > rank:
            kept = list(itertools.combinations(range(len(written)), rank))
            kept.sort(key=lambda keep: sum(written[n].strip() == "0" for n in keep))
            for keep in kept:
                yield _indexed(q, source, subscript, [written[n] for n in keep])
        elif len(written) == rank - 1:
            for text, at in itertools.product(_indices_nearby(source, subscript), range(rank)):
                yield _indexed(q, source, subscript, [*written[:at], text, *written[at:]])
        return


def _indexed(q: Question, source: Source, subscript: cst.Subscript, texts: list[str]) -> Proposal:
    new = with_indices(subscript, texts)
    title = f"Write {source.code(new)} instead of {source.code(subscript)}"
    fresh = {text.strip() for text in texts} - {text.strip() for text in indices(subscript)}
    replaced = len(texts) < len(subscript.slice) and bool(fresh)  # where one is too many, none has to be written anew
    far = _lost(source, subscript, texts) + _misplaced(q, source, subscript, texts) + replaced
    return Proposal(title, (Edit(source.path, subscript, new),), OF_INDICES, distance=far)


def _lost(source: Source, subscript: cst.Subscript, texts: list[str]) -> int:
    """How many variables that are written as indices the new ones leave out."""
    kept = {name for text in texts for name in _names_of(text)}
    return len(_variables(source, subscript) - kept)


def _names_of(index: str) -> set[str]:
    """The names in an index, which may be a slice."""
    subscript = tree.expression(f"_[{index}]")
    assert isinstance(subscript, cst.Subscript)
    return {name for element in subscript.slice for name in tree.names_in(element)}


def _misplaced(q: Question, source: Source, subscript: cst.Subscript, texts: list[str]) -> int:
    """How many loop variables stand at a dimension that is declared otherwise than the extent of their loop, where
    another dimension or another loop would fit; and a 0 where a loop variable is still free."""
    shape = shape_of(q.sources, declared(q.sources, source, subscript))
    extents = _loop_extents(source, subscript)
    count = 0
    for at, text in enumerate(texts):
        extent = extents.get(text.strip())
        if shape is not None and extent is not None and at < len(shape.dims):
            dims = [shape.text(n) for n in range(len(shape.dims))]
            count += extent != dims[at] and (extent in dims or dims[at] in extents.values())
    added = len(texts) > len(subscript.slice) and any(text.strip() == "0" for text in texts)
    return count + (added and bool(set(extents) - _variables(source, subscript)))


def _loop_extents(source: Source, node: cst.CSTNode) -> dict[str, str]:
    """The variables of the loops around a node, with the extents that these are given, as they are written."""
    found: dict[str, str] = {}
    for loop in source.around(node, cst.For):
        names = [e.value for e in loop.target.elements] if isinstance(loop.target, cst.Tuple) else [loop.target]
        plain = [arg for arg in loop.iter.args if arg.keyword is None] if isinstance(loop.iter, cst.Call) else []
        for name, arg in zip(names, plain, strict=False):
            found.setdefault(source.code(name), source.code(arg.value))
    return found


def _is_inner(source: Source, subscript: cst.Subscript) -> bool:
    return isinstance(source.parents.get(subscript), cst.Attribute)


def _like_siblings(source: Source, subscript: cst.Subscript, rank: int) -> Iterator[list[str]]:
    """Indices of the same buffer elsewhere in the function, then of the same number in the statement, if they keep or
    hold all variables of those written here."""
    own = source.enclosing_statement(subscript)
    function = next(source.around(subscript, cst.FunctionDef), None)
    here = [s for s in source.all(cst.Subscript, own) if s is not subscript]
    there = [
        s
        for s in source.all(cst.Subscript, function)
        if source.code(s.value) == source.code(subscript.value) and s is not subscript
    ]
    variables = _variables(source, subscript)
    seen = []
    for other in (*there, *here):
        texts = indices(other)
        if other in here and any(":" in text for text in texts):
            continue
        if len(texts) == rank and texts not in seen and _variables(source, other) == variables:
            seen.append(texts)
            yield texts


def _variables(source: Source, subscript: cst.Subscript) -> set[str]:
    return {n.value for element in subscript.slice for n in source.all(cst.Name, element)}


def _indices_nearby(source: Source, subscript: cst.Subscript) -> list[str]:
    """Loop variables around an access that it does not use, 0, and the index expressions of the function, nearest first."""
    used = _variables(source, subscript)
    loops = [name.value for loop in source.around(subscript, cst.For) for name in source.all(cst.Name, loop.target)]
    function = next(source.around(subscript, cst.FunctionDef), None)
    line = source.line(subscript)
    others = sorted(source.all(cst.Subscript, function), key=lambda s: abs(source.line(s) - line)) if function else []
    written = [text.strip() for other in others if other is not subscript for text in indices(other)]
    slices = any(":" in text for text in indices(subscript))
    fresh = [t for t in written if (slices or ":" not in t) and not _names_of(t) <= used]
    found = [*(name for name in loops if name not in used), *fresh]
    return [*list(dict.fromkeys(found))[:MOST_INDICES], "0"]
