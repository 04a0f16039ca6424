"""What a rule's regular expression says by itself, read from its syntax tree: the literal fragments a text must hold, the
groups it captures, and whether it can be slow. Pure.

The tree is that of the standard library's parser, so rules keep to the syntax which `re` and `regex` share.
"""

from __future__ import annotations

import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any

#: Alternatives of one expression that are told apart; a rule with more is looked at as a whole only in part.
MOST_ALTERNATIVES = 32
#: A repeat that can go on longer than this counts as unbounded.
BOUNDED = 64
#: Characters of a hostile text. Long enough that a cubic search takes minutes, short enough that a linear one is instant.
PROBE_LENGTH = 20_000
FILLERS = ("a", " ", "0", "0, ", "\n")
#: Texts that an expression may stand for before they are no longer spelled out: `[MN] shape` is two, `inputs?` is two.
MOST_READINGS = 32
REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
EMPTY = frozenset(("",))
BREAK = ord("\n")

Alternative = tuple[str, ...]
#: A way through the nodes of an expression: onwards or backwards.
Order = Callable[[Any], Iterator[tuple[Any, Any]]]


class PatternError(ValueError):
    """The expression is not one."""


@lru_cache(maxsize=1024)
def tree(pattern: str) -> Any:
    """The syntax tree. Raises `PatternError`. Group names may repeat, as `regex` allows."""
    count = iter(range(10_000))
    unique = re.sub(r"\(\?P<(\w+)>", lambda m: f"(?P<{m[1]}__{next(count)}>", pattern)
    try:
        return parser.parse(unique, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from None


def group_names(pattern: str) -> frozenset[str]:
    """The names of its groups. Raises `PatternError`."""
    return frozenset(re.sub(r"__\d+$", "", name) for name in tree(pattern).state.groupdict)


def certain_groups(pattern: str) -> frozenset[str]:
    """The names of the groups that every match captures, in whichever alternative it does. Raises `PatternError`."""
    parsed = tree(pattern)
    named = {number: re.sub(r"__\d+$", "", name) for name, number in parsed.state.groupdict.items()}
    return _certain(parsed, named)


def _certain(nodes: Any, named: dict[int, str]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for kind, value in nodes:
        if kind is op.SUBPATTERN:
            found |= _certain(value[-1], named) | {named[n] for n in value[:1] if n in named}
        elif kind is op.BRANCH:
            found |= frozenset.intersection(*(_certain(branch, named) for branch in value[1]))
        elif kind is op.ATOMIC_GROUP:
            found |= _certain(value, named)
        elif kind in REPEATS and value[0] >= 1:
            found |= _certain(value[2], named)
    return found


@lru_cache(maxsize=1024)
def alternatives(pattern: str) -> tuple[Alternative, ...]:
    """The ways to match, each as the literal fragments that must then appear in this order. Raises `PatternError`."""
    return tuple(tuple(f for f in (f.strip() for f in way) if f) for way in _ways(pattern))


def _ways(pattern: str) -> list[list[str]]:
    ways = [[""]]
    _walk(tree(pattern), ways)
    return [[fragment for fragment in way if fragment] for way in ways]


def specificity(pattern: str) -> int:
    """How many literal characters even the loosest alternative demands. Raises `PatternError`."""
    return min((sum(map(len, way)) for way in alternatives(pattern)), default=0)


def _walk(nodes: Any, ways: list[list[str]]) -> None:
    """Append to each way what `nodes` demand; the last fragment of a way is open, "" starts a new one."""
    for kind, value in nodes:
        if kind is op.LITERAL:
            for way in ways:
                way[-1] += chr(value)
        elif kind is op.SUBPATTERN:
            _walk(value[-1], ways)
        elif kind is op.BRANCH:
            _branch(value[1], ways)
        elif kind in REPEATS:
            least, most, body = value
            if least >= 1:
                _walk(body, ways)
            if most != least or least > 1:
                _close(ways)
        elif kind is op.ATOMIC_GROUP:
            _walk(value, ways)
        elif kind is not op.AT:  # anchors take no text; sets, any, references and assertions end a fragment
            _close(ways)


def _close(ways: list[list[str]]) -> None:
    for way in ways:
        way.append("")


def _branch(branches: Any, ways: list[list[str]]) -> None:
    split = []
    for branch in branches:
        copies = [list(way) for way in ways]
        _walk(branch, copies)
        split += copies
    ways[:] = split[:MOST_ALTERNATIVES]


@lru_cache(maxsize=1024)
def anchors(pattern: str) -> frozenset[str]:
    """Texts of which every match holds at least one: the longest that the expression demands. Raises `PatternError`.

    Empty if it demands none: then only the expression itself can tell.
    """
    parsed = tree(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return frozenset()
    best = max(_demands(parsed), key=_telling, default=frozenset())
    return frozenset(text for text in best if not any(other in text for other in best if other != text))


def _telling(texts: frozenset[str]) -> tuple[int, int]:
    """How well a set of texts tells a match from other text: by its shortest, then by how few there are."""
    return min(map(len, texts)), -len(texts)


def _demands(nodes: Any) -> list[frozenset[str]]:
    """Sets of texts; a match of `nodes` holds one of each set. Neighbours with few readings are read as one."""
    found: list[frozenset[str]] = []
    run = EMPTY
    for node in _spelled(nodes):
        readings = _reading(*node)
        longer = _joined(run, readings) if readings else None
        if longer is not None:
            run = longer
            continue
        found.append(_joined(run, _edge(*node, _spelled)) or run)
        run = readings or _edge(*node, _backwards)
        if not readings:
            found += _inner(*node)
    found.append(run)
    return [texts for texts in found if "" not in texts]


def _edge(kind: Any, value: Any, order: Order) -> frozenset[str]:
    """Texts of which every match of a node begins with one, or, read backwards, ends with one; "" where none is known."""
    bodies = value[1] if kind is op.BRANCH else [value[2]] if kind in REPEATS and value[0] >= 1 else []
    edges: frozenset[str] = frozenset().union(*(_edge_of(body, order) for body in bodies))
    return edges if 0 < len(edges) <= MOST_READINGS else EMPTY


def _edge_of(nodes: Any, order: Order) -> frozenset[str]:
    run = EMPTY
    for node in order(nodes):
        readings = _reading(*node)
        added = readings or _edge(*node, order)
        longer = _joined(run, added) if order is _spelled else _joined(added, run)
        run = longer or run
        if not readings or longer is None:
            break
    return run


def _backwards(nodes: Any) -> Iterator[tuple[Any, Any]]:
    yield from reversed(list(_spelled(nodes)))


def _inner(kind: Any, value: Any) -> list[frozenset[str]]:
    """What a node demands whose texts are too many to spell them out."""
    if kind is op.SUBPATTERN and not value[1] & re.IGNORECASE:
        return _demands(value[-1])
    if kind is op.ATOMIC_GROUP:
        return _demands(value)
    if kind in REPEATS and value[0] >= 1:
        return _demands(value[2])
    if kind is op.BRANCH:
        best = [max(_demands(branch), key=_telling, default=None) for branch in value[1]]
        if None not in best:
            return [frozenset().union(*(texts for texts in best if texts))]
    return []


def _readings(nodes: Any) -> frozenset[str] | None:
    """All texts that `nodes` can match; None if they are more than `MOST_READINGS` or not known."""
    run = EMPTY
    for node in _spelled(nodes):
        read = _reading(*node)
        longer = _joined(run, read) if read else None
        if longer is None:
            return None
        run = longer
    return run


def _reading(kind: Any, value: Any) -> frozenset[str] | None:
    """All texts that a node of `_spelled` can match; None if they are too many or not known."""
    if kind is op.LITERAL:
        return frozenset((value,))
    if kind is op.AT:
        return EMPTY
    if kind is op.IN and all(item is op.LITERAL for item, _ in value):
        return frozenset(chr(code) for _, code in value)
    if kind is op.SUBPATTERN and not value[1] & re.IGNORECASE:
        return _readings(value[-1])
    if kind is op.ATOMIC_GROUP:
        return _readings(value)
    if kind is op.BRANCH:
        branches = [_readings(branch) for branch in value[1]]
        return None if None in branches else frozenset().union(*(branch for branch in branches if branch))
    if kind in REPEATS and value[0] in (0, 1) and value[1] == 1:
        once = _readings(value[2])
        return once | EMPTY if once and value[0] == 0 else once
    return None


def _spelled(nodes: Any) -> Iterator[tuple[Any, Any]]:
    """The nodes, without groups around them, and with neighbouring characters joined to one text."""
    for literal, run in groupby(_ungrouped(nodes), lambda node: node[0] is op.LITERAL):
        if literal:
            yield op.LITERAL, "".join(chr(code) for _, code in run)
        else:
            yield from run


def _ungrouped(nodes: Any) -> Iterator[tuple[Any, Any]]:
    for kind, value in nodes:
        if kind is op.SUBPATTERN and not value[1] and not value[2]:
            yield from _ungrouped(value[-1])
        else:
            yield kind, value


def _joined(heads: frozenset[str], tails: frozenset[str]) -> frozenset[str] | None:
    """Every head with every tail; None if that makes too many."""
    if len(heads) * len(tails) > MOST_READINGS:
        return None
    return frozenset(head + tail for head in heads for tail in tails)


@lru_cache(maxsize=1024)
def crosses_lines(pattern: str) -> bool:
    """Whether a match, or what it looks at around itself, can hold a line break. Raises `PatternError`."""
    parsed = tree(pattern)
    return _takes_break(parsed, bool(parsed.state.flags & re.DOTALL))


def _takes_break(nodes: Any, dot: bool) -> bool:
    return any(_node_takes_break(kind, value, dot) for kind, value in _spelled(nodes))


def _node_takes_break(kind: Any, value: Any, dot: bool) -> bool:
    if kind is op.LITERAL:
        return "\n" in value
    if kind is op.NOT_LITERAL:
        return bool(value != BREAK)
    if kind is op.ANY:
        return dot
    if kind is op.IN:
        return _set_takes_break(value)
    if kind is op.SUBPATTERN:
        _, added, removed, body = value
        return _takes_break(body, (dot or bool(added & re.DOTALL)) and not removed & re.DOTALL)
    if kind in REPEATS:
        return _takes_break(value[2], dot)
    if kind is op.BRANCH:
        return any(_takes_break(branch, dot) for branch in value[1])
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return _takes_break(value[1], dot)
    if kind is op.ATOMIC_GROUP:
        return _takes_break(value, dot)
    return kind not in (op.AT, op.GROUPREF)  # what this does not know may


def _set_takes_break(items: Any) -> bool:
    negated, taken = False, False
    for kind, value in items:
        if kind is op.NEGATE:
            negated = True
        elif kind is op.LITERAL:
            taken |= value == BREAK
        elif kind is op.RANGE:
            taken |= value[0] <= BREAK <= value[1]
        else:
            taken |= value in (op.CATEGORY_SPACE, op.CATEGORY_NOT_DIGIT, op.CATEGORY_NOT_WORD)
    return taken is not negated


def asks_for_ends(pattern: str) -> bool:
    r"""Whether it asks for the begin or the end of the whole text (`\A`, `\Z`). Raises `PatternError`."""
    return _has(tree(pattern), (op.AT_BEGINNING_STRING, op.AT_END_STRING))


def _has(nodes: Any, places: tuple[Any, ...]) -> bool:
    for kind, value in _ungrouped(nodes):
        if kind is op.AT and value in places:
            return True
        bodies = [value[2]] if kind in REPEATS else value[1] if kind is op.BRANCH else []
        if any(_has(body, places) for body in bodies):
            return True
    return False


def nested_repeat(pattern: str) -> bool:
    """Whether an unbounded repeat holds another one, which can take exponential time. Raises `PatternError`."""
    return _nested(tree(pattern), inside=False)


def _nested(nodes: Any, inside: bool) -> bool:
    for kind, value in nodes:
        if kind in REPEATS:
            unbounded = value[1] > BOUNDED
            if (unbounded and inside) or _nested(value[2], inside or unbounded):
                return True
        elif kind is op.SUBPATTERN:
            if _nested(value[-1], inside):
                return True
        elif kind is op.BRANCH:
            if any(_nested(branch, inside) for branch in value[1]):
                return True
        elif kind in (op.ASSERT, op.ASSERT_NOT) and _nested(value[1], inside):
            return True
    return False


def probes(pattern: str) -> list[str]:
    """Texts made to be slow for this expression: long runs, its own fragments over and over, and around runs.

    An engine gives up at once where a demanded fragment is absent, so each stands behind a run, too.
    """
    texts = {filler * PROBE_LENGTH for filler in FILLERS}
    for way in _ways(pattern)[:4]:
        for piece in ("".join(way), *way):
            if piece:
                texts.add((piece * PROBE_LENGTH)[:PROBE_LENGTH])
                texts |= {piece + filler * PROBE_LENGTH + piece for filler in FILLERS}
        texts.add("a".join(reversed(way)) * (PROBE_LENGTH // max(1, len("".join(way)))))
    return sorted(texts)
