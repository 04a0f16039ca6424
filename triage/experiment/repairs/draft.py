"""Where the edits of one kernel are gathered. Pure."""

from __future__ import annotations

import ast

from triage.experiment.repairs.edit import USUAL, Change, Edit
from triage.experiment.repairs.scope import Scope
from triage.experiment.repairs.text import Text


class Draft:
    """The edits so far of one outermost function around a kernel."""

    def __init__(self, text: Text, scope: Scope) -> None:
        self.text, self.scope = text, scope
        self.found: list[Edit] = []
        #: the family of the edits that come now
        self.family = ""

    def add(self, statement: ast.stmt, kind: str, says: str, *changes: Change, rare: int = USUAL) -> None:
        """An edit of a statement; of a compound one, of its header."""
        body = getattr(statement, "body", None)
        end = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno
        self.found.append(Edit(statement.lineno, end, kind, says, changes, rare, self.family))

    def swap(self, statement: ast.stmt, node: ast.AST, new: str, kind: str, rare: int = USUAL) -> None:
        """One part of a statement replaced."""
        old = self.text.of(node)
        if new != old:
            self.add(statement, kind, f"`{old}` as `{new}`", self.text.replaced(node, new), rare=rare)

    def exchange(self, statement: ast.stmt, one: ast.AST, other: ast.AST, kind: str, rare: int = USUAL) -> None:
        """Two parts of a statement in each other's place."""
        first, second = self.text.of(one), self.text.of(other)
        if first != second:
            says = f"`{first}` and `{second}` exchanged"
            self.add(
                statement, kind, says, self.text.replaced(one, second), self.text.replaced(other, first), rare=rare
            )
