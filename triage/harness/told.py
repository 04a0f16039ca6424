"""What people are told of a comparison, and the script does nothing else with: a printed no, a failure that a runner catches."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator, Sequence

from .deciding import body_of, called, parents_of, statement

#: functions that tell people something, and such as keep what a truth value says
SAYS = frozenset({"print", "info", "warning", "error", "debug", "log", "echo", "pprint"})
CASTS = frozenset({"bool", "str", "int", "format", "item", "repr"})
#: what people are told of a result that is wrong
WRONG = re.compile(
    r"(?i)\b(wrong|fail(s|ed|ure)?|mismatch(ed|es)?|incorrect|error|bad|broken|not ok|diverge[sd]?)\b|\N{CROSS MARK}|\N{BALLOT X}|\N{HEAVY BALLOT X}"
)
#: what catches a failed assertion
CAUGHT = {"AssertionError", "Exception", "BaseException"}
#: names through which an answer is followed to a `print`
CHAIN = 3


def only_told(function: str, frame: types.FrameType, line: int) -> str:
    """What becomes of the answer of a function that compares, called in a line, if it only comes to be read by people: it is printed, also
    through a name or a choice between words, or decides over nothing but what is printed. "wrong" where the words for a no say that
    something is wrong, else "told"; "" where it does more, or a `not` asks for the other answer."""
    scope = body_of(frame.f_code)
    calling = statement(frame, line)
    calls = [n for n in ast.walk(calling) if called(n) == function] if calling is not None else []
    return _told(calls[0], scope, depth=0) if len(calls) == 1 else ""


def caught(users: Sequence[tuple[types.FrameType, int]]) -> str:
    """ "wrong" if the script catches what a failed comparison raises and says with a word that something is wrong; "" where it may have to fail."""
    handled = next((one for frame, line in reversed(users) for one in _handled(frame, line)), None)
    if handled is None:
        return ""
    block, handler = handled
    has_to_fail = any(isinstance(n, (ast.Raise, ast.Assert)) for one in block.orelse for n in ast.walk(one))
    return "wrong" if not has_to_fail and _words(handler.body) == "wrong" else ""


def _handled(frame: types.FrameType, line: int) -> Iterator[tuple[ast.Try, ast.ExceptHandler]]:
    """The handlers around a line that catch a failed assertion, the innermost first, each with its `try`."""
    parents = parents_of(body_of(frame.f_code))
    node: ast.AST | None = statement(frame, line)
    while node is not None and id(node) in parents:
        parent = parents[id(node)]
        if isinstance(parent, ast.Try) and any(node is one for one in parent.body):
            yield from ((parent, handler) for handler in parent.handlers if _catches(handler))
        node = parent


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(n, ast.Name) and n.id in CAUGHT for n in ast.walk(handler.type))


def _told(node: ast.AST, scope: ast.AST, depth: int) -> str:
    parents = parents_of(scope)
    said = "told"
    while id(node) in parents:
        parent = parents[id(node)]
        if isinstance(parent, ast.Expr):
            return said if depth == 0 or isinstance(node, ast.Call) else ""
        if isinstance(parent, ast.Call) and node is not parent.func:
            if called(parent) in SAYS:
                return said
            if called(parent) not in CASTS:
                return ""
        elif isinstance(parent, ast.Assign):
            name = parent.targets[0]
            uses = _uses(name.id, scope) if depth < CHAIN and isinstance(name, ast.Name) else []
            told = {_told(use, scope, depth + 1) for use in uses}
            return "" if not told or "" in told else max(told)
        elif isinstance(parent, ast.If):
            return _words([*parent.orelse]) if all(_only_says(one) for one in (*parent.body, *parent.orelse)) else ""
        elif isinstance(parent, ast.IfExp) and node is parent.test:
            said = _words([parent.orelse])
        elif not isinstance(parent, (ast.FormattedValue, ast.JoinedStr, ast.IfExp, ast.Tuple, ast.List, ast.keyword)):
            return ""
        node = parent
    return ""


def _uses(name: str, scope: ast.AST) -> list[ast.AST]:
    named = (node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name)
    return [node for node in named if isinstance(node.ctx, ast.Load)]


def _words(nodes: Sequence[ast.AST]) -> str:
    """What is said where the answer is no."""
    texts = (
        n.value for node in nodes for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    )
    return "wrong" if any(WRONG.search(text) for text in texts) else "told"


def _only_says(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and called(node.value) in SAYS)
