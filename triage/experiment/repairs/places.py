"""Edits of where statements stand: left out, earlier or later, in a loop or before it; and clears that are missing. Pure."""

from __future__ import annotations

import ast

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, MOVABLE, RARE, USUAL
from triage.experiment.repairs.scope import kind_of
from triage.experiment.repairs.syntax import SIMPLE, called, declares, initializes, operation

#: so many statements behind one may mean a value that it replaces, and it may belong before so many
NEAR = 4
#: what adds to the buffer that it is given as this argument
ACCUMULATING = {"gemm": 2} | dict.fromkeys(
    ("reduce_sum", "reduce_max", "reduce_min", "reduce_absmax", "reduce_abssum"), 1
)


def edit_place(draft: Draft, statement: ast.stmt, body: list[ast.stmt], number: int) -> None:
    """Leave a statement out, or do it before or after others, or before the loops around it, or in the one behind it."""
    draft.family = "place"
    if not draft.scope.movable(statement):
        return
    if len(body) > 1 or draft.scope.loops(statement):
        kind = "statement" if initializes(statement) else MOVABLE
        change = draft.text.instead(statement, "pass")
        draft.add(statement, kind, "without this statement", change, rare=LESS_USUAL)
    following = body[number + 1] if number + 1 < len(body) else None
    if initializes(statement):
        _out_of_loops(draft, statement)
        if isinstance(following, ast.For):
            _into_loop(draft, statement, following)
    if following is not None and not declares(following):
        _behind(draft, statement, following)
    _before(draft, statement, body[:number])
    _value_before(draft, statement, body[number + 1 :])
    _clears(draft, statement)


def _out_of_loops(draft: Draft, statement: ast.stmt) -> None:
    text = draft.text.of(statement)
    for number, loop in enumerate(draft.scope.loops(statement)):
        says = "before the loop instead of in it" if number == 0 else f"before the loop of line {loop.lineno}"
        changes = draft.text.instead(statement, "pass"), draft.text.before(loop, text)
        call = operation(statement)
        grade = USUAL if call is not None and called(call) != "copy" else LESS_USUAL
        draft.add(statement, "statement", says, *changes, rare=grade)


def _into_loop(draft: Draft, statement: ast.stmt, loop: ast.For) -> None:
    changes = draft.text.instead(statement, "pass"), draft.text.before(loop.body[0], draft.text.of(statement))
    draft.add(statement, "statement", "in the loop instead of before it", *changes, rare=LESS_USUAL)


def _behind(draft: Draft, statement: ast.stmt, following: ast.stmt) -> None:
    start, stop = draft.text.whole_lines(statement)
    first, last = draft.text.whole_lines(following)
    if first == stop:
        source = draft.text.source
        change = start, last, source[first:last] + source[start:stop]
        draft.add(statement, "order", "after the statement behind it", change, rare=RARE)


def _before(draft: Draft, statement: ast.stmt, earlier: list[ast.stmt]) -> None:
    """Before a loop that stands before it, or before several statements: what it reads is changed there, or what it writes read."""
    for distance, other in enumerate(reversed(earlier[-NEAR:]), start=1):
        if declares(other) or initializes(other):
            return
        if distance > 1 or not isinstance(other, SIMPLE):  # `_behind` exchanges two simple ones
            changes = draft.text.instead(statement, "pass"), draft.text.before(other, draft.text.of(statement))
            draft.add(statement, "order", f"before line {other.lineno}", *changes, rare=RARE)


def _value_before(draft: Draft, statement: ast.stmt, behind: list[ast.stmt]) -> None:
    """In a later statement, the value that an element had before this one wrote it."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if not isinstance(target, ast.Subscript) or not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return
    written = ast.unparse(target)
    for later in behind[:NEAR]:
        reads = [
            node
            for node in ast.walk(later)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and ast.unparse(node) == written
        ]
        if reads and isinstance(later, (ast.Assign, ast.AugAssign)):
            name, text = "value_before", draft.text.of(target)
            kept = draft.text.before(statement, f"{name} = {text}")
            changes = kept, *(draft.text.replaced(node, name) for node in reads)
            draft.add(later, "order", f"`{text}` as it was before line {statement.lineno}", *changes)


def _clears(draft: Draft, statement: ast.stmt) -> None:
    """A clear before a statement that adds to a buffer, or before the loops around it, the innermost first."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        position = ACCUMULATING.get(called(call), len(call.args))
        target = call.args[position] if position < len(call.args) else None
        if isinstance(target, ast.Name):
            _cleared(draft, statement, target.id)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
        buffer = statement.target.value
        if isinstance(buffer, ast.Name) and buffer.id in draft.scope.buffers:
            _cleared(draft, statement, buffer.id)


def _cleared(draft: Draft, statement: ast.stmt, buffer: str) -> None:
    clear = f"T.clear({buffer})"
    grade = LESS_USUAL if isinstance(statement, ast.AugAssign) else USUAL
    if not draft.scope.loops(statement) or grade == USUAL:
        draft.add(
            statement, "initial value", f"with `{clear}` before it", draft.text.before(statement, clear), rare=grade
        )
    for loop in draft.scope.loops(statement):
        if draft.scope.cleared_in(loop, buffer):
            return
        says = f"with `{clear}` before the loop of line {loop.lineno}"
        parallel = kind_of(loop) == "Parallel"
        before = draft.scope.initialized_before(loop, buffer)  # which then stands in the wrong place
        draft.add(
            before or statement,
            "initial value",
            says,
            draft.text.before(loop, clear),
            rare=LESS_USUAL if parallel else USUAL,
        )
