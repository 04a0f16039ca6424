"""Parts of statements that a script may do without. Pure: source text in, smaller source texts out."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.experiment.source import acting

#: numbers up to this are left as they are; tiles of fewer rows than this are no tiles
SMALL = 16

#: from where to where in the encoded text
Span = tuple[int, int]


@dataclass(frozen=True)
class Siblings:
    """Arguments, parameters or elements beside each other, with commas between; `gone` are the indices of some of them."""

    spans: tuple[Span, ...]
    gone: frozenset[int]
    #: elements of a tuple, of which a single one needs its comma
    is_tuple: bool = False


@dataclass(frozen=True)
class Part:
    """What can go together: one part of a statement, and what belongs to it elsewhere. Where one part of a `kind` is
    needed, so are the others; None where that says nothing."""

    places: tuple[Siblings, ...]
    kind: str | None = None

    @property
    def start(self) -> int:
        return min(self.places[0].spans[index][0] for index in self.places[0].gone)


def optional(source: str) -> list[Part]:
    """Parts in the order of the text: a decorator, a keyword argument, the last argument, elements but the first, what
    has a line or a name to itself, and a parameter that nothing reads."""
    text = Text(source)
    frozen = text.acting()
    loads = [n.id for n in text.nodes() if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    found: list[Part] = []
    for node in text.nodes():
        found += (*_decorators(text, node), *_arguments(text, node, loads), *_elements(text, node, loads))
    return sorted([*_free(found, frozen), *idle_parameters(source)], key=lambda part: part.start)


def idle_parameters(source: str) -> list[Part]:
    """Parameters that nothing reads, with what calls by the function's name pass for them. A method has no such calls."""
    text = Text(source)
    methods = {n for node in text.nodes() if isinstance(node, ast.ClassDef) for n in node.body}
    found = []
    for function in (n for n in text.nodes() if isinstance(n, ast.FunctionDef) and _plain(n.args)):
        if function in methods:
            continue
        read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        found += [
            Part(tuple(_passed(text, function, index)))
            for index, parameter in enumerate(function.args.args)
            if parameter.arg not in read
        ]
    return _free(found, text.acting())


def _free(parts: Iterable[Part], frozen: Sequence[Span]) -> list[Part]:
    """The parts that lie in no acting statement, in the order of the text."""
    spans = {part: [place.spans[index] for place in part.places for index in place.gone] for part in parts}
    free = [part for part, places in spans.items() if not any(_meet(one, two) for one in places for two in frozen)]
    return sorted(free, key=lambda part: part.start)


def _meet(one: Span, two: Span) -> bool:
    return one[0] < two[1] and two[0] < one[1]


def without_parts(source: str, gone: Iterable[Part]) -> str:
    """The source without some parts."""
    together: dict[tuple[Span, ...], tuple[frozenset[int], bool]] = {}
    for place in (place for part in gone for place in part.places):
        before, _ = together.get(place.spans, (frozenset(), False))
        together[place.spans] = (before | place.gone, place.is_tuple)
    text = Text(source)
    cuts = [cut for spans, (some, is_tuple) in together.items() for cut in _cuts(text.encoded, spans, some, is_tuple)]
    return text.replaced(cuts)


def smaller_numbers(source: str) -> Iterator[str]:
    """All larger numbers halved; then one number at a time made small, or halved, wherever it stands, since a size is
    written at the tensor, at the tile and at the call."""
    large = numbers(source, SMALL)
    if len(large) > 1:
        yield with_numbers(source, {number: number // 2 for number in large})
    for number in large:
        for smaller in dict.fromkeys((SMALL, number // 2)):
            if smaller < number:
                yield with_numbers(source, {number: smaller})


def numbers(source: str, above: int) -> list[int]:
    """The whole numbers above a bound that may be changed, the largest first."""
    return sorted((number for number in _numbers(Text(source)) if number > above), reverse=True)


def with_numbers(source: str, new: Mapping[int, int]) -> str:
    """The source with other numbers in the place of some, wherever they stand."""
    text = Text(source)
    found = _numbers(text)
    return text.replaced((*span, b"%d" % new[number]) for number in new for span in found.get(number, ()))


def _numbers(text: Text) -> dict[int, list[Span]]:
    """Where each whole number stands outside the acting statements."""
    frozen = text.acting()
    found: dict[int, list[Span]] = {}
    for node in text.nodes():
        if isinstance(node, ast.Constant) and type(node.value) is int:
            span = text.span(node)
            if text.encoded[slice(*span)].isdigit() and not any(_meet(span, one) for one in frozen):
                found.setdefault(node.value, []).append(span)
    return found


def inner_calls(source: str) -> Iterator[str]:
    """A statement replaced by a call inside it: `check(run(x), y)` by `run(x)`."""
    text = Text(source)
    frozen = text.acting()
    for node in text.nodes():
        if not isinstance(node, (ast.Expr, ast.Assign, ast.Return)) or node.value is None:
            continue
        if any(_meet(text.span(node), one) for one in frozen):
            continue
        outer = node.value if isinstance(node, ast.Expr) else None
        for inner in ast.walk(node.value):
            if isinstance(inner, ast.Call) and inner is not outer:
                low, high = text.span(inner)
                yield text.replaced([(*text.span(node), text.encoded[low:high])])


def inlined(source: str) -> Iterator[str]:
    """A function that is called once, without arguments and for nothing but its effect, replaced by its body."""
    tree = ast.parse(source)
    lines = source.splitlines()
    for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        used = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == function.name]
        call = next((n for n in tree.body if isinstance(n, ast.Expr) and _calls(n.value, function.name)), None)
        if call is None or call.lineno < function.lineno or len(used) != 1 or not _only_acts(function):
            continue
        first, shift = function.body[0].lineno, function.body[0].col_offset
        body = lines[first - 1 : function.end_lineno]
        if first == function.lineno or any(line.strip() and not line.startswith(" " * shift) for line in body):
            continue
        rest = lines[: function.lineno - 1] + lines[function.end_lineno : call.lineno - 1]
        yield "\n".join([*rest, *(line[shift:] for line in body), *lines[call.end_lineno or 0 :]]) + "\n"


def _only_acts(function: ast.FunctionDef) -> bool:
    """Whether a function takes nothing that has no default, gives nothing back, and is nothing but a function."""
    given = function.args
    gives = (ast.Return, ast.Yield, ast.YieldFrom, ast.Nonlocal, ast.Global)
    return (
        _plain(given) and not given.args and not function.decorator_list
        and not any(isinstance(n, gives) for n in ast.walk(function))
    )  # fmt: skip


def _calls(node: ast.AST, name: str) -> bool:
    """Whether a node is `name()`."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        and not node.args and not node.keywords
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------- what can go


def _decorators(text: Text, node: ast.AST) -> Iterator[Part]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        for one in node.decorator_list:
            low, high = text.span(one)
            yield Part((Siblings(((low - 1, high),), frozenset({0})),), f"@{ast.unparse(one)}")


def _arguments(text: Text, node: ast.AST, loads: Sequence[str]) -> Iterator[Part]:
    if not isinstance(node, ast.Call):
        return
    given: list[ast.AST] = [*node.args, *node.keywords]
    spans = tuple(map(text.span, given))
    for index, part in enumerate(given):
        last = index == len(node.args) - 1
        if isinstance(part, ast.keyword) or last or _has_to_itself(given, index, loads):
            # how many arguments a function needs is the same at every call
            kind = f"{ast.unparse(node.func)} of {len(node.args)}" if last else None
            yield Part((Siblings(spans, frozenset({index})),), kind)


def _elements(text: Text, node: ast.AST, loads: Sequence[str]) -> Iterator[Part]:
    if not isinstance(node, (ast.List, ast.Tuple)) or not isinstance(node.ctx, ast.Load) or len(node.elts) < 2:
        return
    count, spans, is_tuple = len(node.elts), tuple(map(text.span, node.elts)), isinstance(node, ast.Tuple)
    if count > 2:
        yield Part((Siblings(spans, frozenset(range(1, count)), is_tuple),))
    for index in range(count):
        if (count > 2 and index == count - 1) or _has_to_itself(node.elts, index, loads):
            yield Part((Siblings(spans, frozenset({index}), is_tuple),))


def _has_to_itself(parts: Sequence[ast.AST], index: int, loads: Sequence[str]) -> bool:
    """Whether a part begins a line, or alone reads a name."""
    alone = index > 0 and getattr(parts[index], "lineno", 0) > (getattr(parts[index - 1], "end_lineno", 0) or 0)
    return alone or any(isinstance(n, ast.Name) and loads.count(n.id) == 1 for n in ast.walk(parts[index]))


def _plain(given: ast.arguments) -> bool:
    return not (given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg)


def _passed(text: Text, function: ast.FunctionDef, index: int) -> Iterator[Siblings]:
    """Where a parameter is, and what calls by the function's name pass for it."""
    given = function.args
    plain = len(given.args) - len(given.defaults)
    ends: list[ast.AST] = [*given.args[:plain], *given.defaults]
    spans = [(text.span(one)[0], text.span(end)[1]) for one, end in zip(given.args, ends, strict=True)]
    yield Siblings(tuple(spans), frozenset({index}))
    for call in text.nodes():
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function.name:
            passed: list[ast.AST] = [*call.args, *call.keywords]
            named = [n for n, k in enumerate(passed) if isinstance(k, ast.keyword) and k.arg == given.args[index].arg]
            for at in [index] if index < len(call.args) else named:
                yield Siblings(tuple(map(text.span, passed)), frozenset({at}))


# -------------------------------------------------------------------------------------------------------------- text


class Text:
    """A source text, where its nodes are in it, and the text with some of it replaced."""

    def __init__(self, source: str) -> None:
        self.source, self.tree = source, ast.parse(source)
        self.encoded = source.encode()
        self._lines = [0, *itertools.accumulate(len(line) for line in self.encoded.splitlines(keepends=True))]

    def nodes(self) -> Iterator[ast.AST]:
        """All nodes but those inside f-strings, whose places Python before 3.12 does not tell."""
        waiting: list[ast.AST] = [self.tree]
        for node in waiting:
            yield node
            if not isinstance(node, ast.JoinedStr):
                waiting += ast.iter_child_nodes(node)

    def acting(self) -> list[Span]:
        """Where the statements are that must stay as they are."""
        return [(self._lines[piece.start - 1], self._lines[piece.end]) for piece in acting(self.source)]

    def span(self, node: ast.AST) -> Span:
        low = self._lines[getattr(node, "lineno", 1) - 1] + getattr(node, "col_offset", 0)
        return low, self._lines[getattr(node, "end_lineno", 1) - 1] + getattr(node, "end_col_offset", 0)

    def replaced(self, cuts: Iterable[tuple[int, int, bytes]]) -> str:
        """The text with spans replaced, the inner of two that overlap by the outer; lines that are empty then go."""
        text, before = self.encoded, len(self.encoded)
        for low, high, by in sorted(_outermost(cuts), reverse=True):
            assert high <= before
            before = low
            start, end = text.rfind(b"\n", 0, low) + 1, text.find(b"\n", high)
            end = len(text) if end < 0 else end
            middle = text[start:low] + by + text[high:end]
            text = text[:start] + middle + text[end:] if middle.strip() else text[:start] + text[end + 1 :]
        return text.decode(errors="replace")


def _outermost(cuts: Iterable[tuple[int, int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    end = -1
    for low, high, by in sorted(cuts, key=lambda cut: (cut[0], -cut[1])):
        if low >= end:
            yield low, high, by
            end = high


def _cuts(text: bytes, spans: Sequence[Span], gone: frozenset[int], is_tuple: bool) -> Iterator[tuple[int, int, bytes]]:
    """What to replace by what so that some of a row go, each with one comma."""
    last = len(spans) - 1
    left = [index for index in range(len(spans)) if index not in gone]
    if is_tuple and len(left) == 1:
        low, high = spans[left[0]]
        yield spans[0][0], spans[last][1], text[low:high] + (b"" if COMMA.match(text, spans[last][1]) else b",")
        return
    if not left:
        comma = COMMA.match(text, spans[last][1])
        yield spans[0][0], comma.end() if comma and not is_tuple else spans[last][1], b""
        return
    for index in sorted(gone):
        if index < left[-1]:
            yield spans[index][0], spans[index + 1][0], b""
    if left[-1] < last:
        yield spans[left[-1]][1], spans[last][1], b""


COMMA = re.compile(rb"\s*,")
