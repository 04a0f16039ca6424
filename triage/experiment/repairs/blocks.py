"""Edits of loops over a tile as a whole: in or behind the loop over steps, or left out. Pure."""

from __future__ import annotations

import ast
import textwrap

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, RARE
from triage.experiment.repairs.scope import PARALLEL, SERIAL, kind_of
from triage.experiment.repairs.syntax import SIMPLE, declares, initializes


def edit_block_place(draft: Draft, statement: ast.stmt, body: list[ast.stmt], number: int) -> None:
    """Do what is done in each step of a loop once behind it, and the other way round; leave a loop over a tile out."""
    draft.family = "block"
    tile = isinstance(statement, ast.For) and kind_of(statement) in PARALLEL
    around = draft.scope.loops(statement)
    within = around[0] if around else None
    if tile and (len(body) > 1 or around):
        draft.add(statement, "statement", "without this loop", draft.text.instead(statement, "pass"), rare=LESS_USUAL)
    if within is not None and kind_of(within) in SERIAL and len(body) > 1 and (tile or _moves(draft, statement)):
        says = f"behind the loop of line {within.lineno} instead of in it"
        _moved(
            draft, statement, says, draft.text.behind(within, draft.scope.following(within), *_lines(draft, statement))
        )
    before = body[number - 1] if number else None
    if tile and isinstance(before, ast.For) and kind_of(before) in SERIAL:
        says = f"in the loop of line {before.lineno} instead of behind it"
        _moved(draft, statement, says, draft.text.after(before.body[-1], *_lines(draft, statement)))


def _moves(draft: Draft, statement: ast.stmt) -> bool:
    return (
        isinstance(statement, SIMPLE)
        and not initializes(statement)
        and not declares(statement)
        and draft.scope.movable(statement)
    )


def _moved(draft: Draft, statement: ast.stmt, says: str, change: tuple[int, int, str]) -> None:
    draft.add(statement, "order", says, draft.text.instead(statement, "pass"), change, rare=RARE)


def _lines(draft: Draft, statement: ast.stmt) -> list[str]:
    start, stop = draft.text.whole_lines(statement)
    return textwrap.dedent(draft.text.source[start:stop]).splitlines()
