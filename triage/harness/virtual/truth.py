"""What a made-up comparison answers: never a fault, whatever the script does with it.

The answer is chosen from where the script asks. In `assert d < eps` it is the one that lets the assertion pass; in
`if not ok: raise …` the one that does not raise. Elsewhere it is the one that the comparison speaks for (`<` and
`allclose` for agreement, `>` and `isnan` for difference).
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import sys
from types import FrameType
from typing import Any

from .. import errors
from . import session


def of_tensor(tensor: Any) -> bool:
    """`bool(tensor)` for a `VirtualTensor`. Raises as PyTorch does for more than one element."""
    if tensor.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if tensor.numel() == 0
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    if not tensor.tainted:
        return bool(tensor.payload.item())
    natural = tensor.sense
    if natural is None:
        natural = True if tensor.payload.is_meta else bool(tensor.payload.item())
    return decide("bool(tensor)", natural)


def of_numbers(name: str, left: Any, right: Any, value: bool, sense: bool) -> bool:
    """The answer of a comparison operator on made-up numbers; `value` is what the made-up values would give."""
    if isinstance(left, int) and isinstance(right, int):
        return decide(name, value)  # sizes and counters: a loop over them has to end
    return decide(name, sense)


def decide(function: str, natural: bool) -> bool:
    """The answer for the user's frame that asks, recorded as a comparison of made-up values."""
    frame = errors.asking(sys._getframe(1))
    wanted = None if frame is None else _wanted(frame)
    answer = natural if wanted is None else wanted
    if wanted is not None:
        session.comparison(function, "a condition on values that no device computed", frame)
    return answer


def _wanted(frame: FrameType) -> bool | None:
    """The truth that the condition around the current instruction needs to have for the script to go on."""
    position = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,))
    if None in position:
        return None
    line, end_line, column, end_column = position
    parents = _conditions(frame.f_code.co_filename, frame.f_code.co_firstlineno)
    for test, wanted in parents:
        if (test.lineno, test.col_offset) <= (line, column) and (end_line, end_column) <= (
            test.end_lineno,
            test.end_col_offset,
        ):
            return wanted ^ _negated(test, (line, column, end_line, end_column))
    return None


@functools.cache
def _conditions(path: str, _first: int) -> list[tuple[Any, bool]]:
    """Every condition of a file that must be true, or false, for the script not to fail; innermost first."""
    source = "".join(linecache.getlines(path))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[tuple[Any, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            found.append((node.test, True))
        elif isinstance(node, ast.If):
            if _fails(node.body):
                found.append((node.test, False))
            elif _fails(node.orelse):
                found.append((node.test, True))
    return found[::-1]


def _fails(body: list[ast.stmt]) -> bool:
    """Whether a branch ends the script or the test: it raises, asserts False, exits or returns False."""
    for statement in body:
        if isinstance(statement, ast.Raise):
            return True
        if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant) and not statement.test.value:
            return True
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Constant):
            return statement.value.value is False
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = statement.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ("exit", "_exit", "fail", "abort"):
                return True
    return False


def _negated(test: ast.expr, span: tuple[Any, ...]) -> bool:
    """Whether an odd number of `not` stands between a condition and the expression at `span` in it."""
    line, column, end_line, end_column = span
    return (
        sum(
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.Not)
            and (node.operand.lineno, node.operand.col_offset) <= (line, column)
            and (end_line, end_column) <= (node.operand.end_lineno, node.operand.end_col_offset)
            for node in ast.walk(test)
        )
        % 2
        == 1
    )
