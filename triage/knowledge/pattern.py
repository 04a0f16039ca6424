"""What a rule's regular expression says by itself, read from its syntax tree: the literal fragments a text must hold, the
groups it captures, and whether it can be slow. Pure.

The tree is that of the standard library's parser, so rules keep to the syntax which `re` and `regex` share.
"""

from __future__ import annotations

import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from functools import lru_cache
from typing import Any

#: Alternatives of one expression that are told apart; a rule with more is looked at as a whole only in part.
MOST_ALTERNATIVES = 32
#: A repeat that can go on longer than this counts as unbounded.
BOUNDED = 64
#: Characters of a hostile text. Long enough that a cubic search takes minutes, short enough that a linear one is instant.
PROBE_LENGTH = 20_000
FILLERS = ("a", " ", "0", "0, ", "\n")

Alternative = tuple[str, ...]


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
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
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


def nested_repeat(pattern: str) -> bool:
    """Whether an unbounded repeat holds another one, which can take exponential time. Raises `PatternError`."""
    return _nested(tree(pattern), inside=False)


def _nested(nodes: Any, inside: bool) -> bool:
    for kind, value in nodes:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
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
    """Texts made to be slow for this expression: long runs, and its own fragments over and over, before and after runs.

    An engine gives up at once where a demanded fragment is absent, so each fragment stands at the end of one, too.
    """
    texts = {filler * PROBE_LENGTH for filler in FILLERS}
    for way in _ways(pattern)[:4]:
        for piece in ("".join(way), *way):
            if piece:
                texts.add((piece * PROBE_LENGTH)[:PROBE_LENGTH])
                texts |= {piece + filler * PROBE_LENGTH for filler in FILLERS}
                texts |= {filler * PROBE_LENGTH + piece for filler in FILLERS}
        texts.add("a".join(reversed(way)) * (PROBE_LENGTH // max(1, len("".join(way)))))
    return sorted(texts)
