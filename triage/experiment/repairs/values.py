"""Edits of what a statement stores. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, MOVABLE, USUAL
from triage.experiment.repairs.syntax import OPERATORS, indices_of

#: how many names that nothing reads are tried as a factor
FORGOTTEN = 2
#: what a size that softmax divides by the root of is called
OF_HEADS = re.compile(r"dim|^d$|^D$")
AUGMENTED: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-", "*"), ast.Sub: ("+",), ast.Mult: ("/", "+"), ast.Div: ("*",),
}  # fmt: skip


def edit_assignment(draft: Draft, statement: ast.stmt) -> None:
    """A store that should have added or not, with its sign, or with a factor that nothing uses."""
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or statement.value is None:
        return
    place = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(place, ast.Subscript):
        return
    draft.family = "assignment"
    target, value = draft.text.of(place), draft.text.of(statement.value)
    if isinstance(statement, ast.AugAssign):
        says = f"`=` for `{OPERATORS[type(statement.op)]}=`"
        draft.add(statement, "operator", says, draft.text.replaced(statement, f"{target} = {value}"), rare=LESS_USUAL)
        for symbol in AUGMENTED.get(type(statement.op), ()):
            change = draft.text.replaced(statement, f"{target} {symbol}= {value}")
            draft.add(statement, "operator", f"`{symbol}=`", change, rare=LESS_USUAL)
    else:
        in_loop = bool(draft.scope.serial_loops(statement))
        change = draft.text.replaced(statement, f"{target} += {value}")
        draft.add(statement, "operator", "`+=` for `=`", change, rare=USUAL if in_loop else LESS_USUAL)
    for name in draft.scope.unused[:FORGOTTEN]:
        for symbol in "*/+-":
            draft.swap(statement, statement.value, f"({value}) {symbol} {name}", MOVABLE)
    for term in _unread(draft, place):
        for symbol in "*+":
            draft.swap(statement, statement.value, f"({value}) {symbol} {term}", MOVABLE)
    for size in (size for size in draft.scope.sizes if OF_HEADS.search(size)):
        draft.swap(statement, statement.value, f"({value}) * {size}**-0.5", MOVABLE, LESS_USUAL)
    draft.swap(statement, statement.value, f"-({value})", MOVABLE, LESS_USUAL)


def _unread(draft: Draft, place: ast.Subscript) -> Iterator[str]:
    """Elements of tensors that the kernel forgets, such as a bias: with all indices of the store, or with one of them."""
    indices = [draft.text.of(index) for index in indices_of(place)]
    for name, rank in draft.scope.unread.items():
        if rank == len(indices):
            yield f"{name}[{', '.join(indices)}]"
        elif rank == 1:
            yield from (f"{name}[{index}]" for index in indices)
