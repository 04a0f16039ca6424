"""Small edits of a kernel's source that might make a wrong result right: where one does, the statement it changes is suspect.

Values alone cannot say which statement of a wrong kernel is at fault: every one of them computes what it says. What can be
tried is the neighbourhood: the same kernel with one bound, index, initial value, factor, operator, type or place of a statement changed,
or with a part that another statement says (`grafts`).
`edits` lists such changes of one file: slips that authors make in general, the usual ones first, so that no statement has to wait
for all edits of another. Only code of kernels is changed: the bodies of `with T.Kernel(...)`, macros, what these call in the same file,
and the assignments beside them in a factory. `host_edits` are those of the call and the reference, which are tried against them. Pure:
source text in, edits out.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence

from triage.experiment.repairs.blocks import edit_block_place
from triage.experiment.repairs.bounds import edit_grid, edit_loop
from triage.experiment.repairs.donors import Donors
from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import (
    KINDS,
    LESS_USUAL,
    MOVABLE,
    SYNTHETIC,
    Edit,
    in_neighbours,
    in_order,
    throughout,
)
from triage.experiment.repairs.expressions import edit_expression
from triage.experiment.repairs.grafts import edit_by_parts, edit_factory, edit_loads, edit_means, edit_tail
from triage.experiment.repairs.host import host_edits
from triage.experiment.repairs.indices import edit_every_name
from triage.experiment.repairs.masks import edit_mask
from triage.experiment.repairs.places import edit_place
from triage.experiment.repairs.scope import Scope, shifts_of
from triage.experiment.repairs.sizes import other_sizes
from triage.experiment.repairs.slips import edit_slips
from triage.experiment.repairs.sums import edit_sums
from triage.experiment.repairs.syntax import OF_NUMBERS, SIMPLE, directs, expressions, launches, target_names
from triage.experiment.repairs.synthesis import edit_freely, pairs
from triage.experiment.repairs.text import Text
from triage.experiment.repairs.values import edit_assignment

__all__ = ["KINDS", "LESS_USUAL", "MOVABLE", "SYNTHETIC", "Edit", "edits", "further_edits", "host_edits", "other_sizes"]

#: statements that are edited freely: of a compound one, its header
FREE = (*SIMPLE, ast.For, ast.If, ast.While)
#: floats and integers that an accumulator should not be made of by default
WIDER = {"float16": "float32", "bfloat16": "float32", "int8": "int32", "int16": "int32"}


def edits(source: str, lines: Iterable[int], patterns: Sequence[str] = (), wrong: Collection[int] = ()) -> list[Edit]:
    """The edits of the functions that hold any of `lines` (where statements of kernels stand), the likely ones first.

    `patterns` are words about the wrong elements (`tail-rows`, `scaled`, …), `wrong` the lines of those kernels that wrote them, if that
    is known. Empty where the source does not parse.
    """
    found: list[Edit] = []
    later: set[int] = set()
    for draft in _drafts(source, lines):
        found += _edits_of(draft)
        function = draft.scope.function
        own = range(function.lineno, (function.end_lineno or function.lineno) + 1)
        later.update(own if wrong and not set(wrong) & set(own) else ())
    return _distinct(in_order(found, patterns, later))


def further_edits(source: str, lines: Iterable[int], usual: Sequence[Edit], patterns: Sequence[str] = ()) -> list[Edit]:
    """Edits beyond the `usual` ones of the same statements, for who can look at thousands. Empty where the source does not parse."""
    found: list[Edit] = []
    for draft in _drafts(source, lines):
        for body in draft.scope.bodies:
            for statement in (node for node in ast.walk(body) if isinstance(node, FREE)):
                if not directs(getattr(statement, "value", None)):
                    edit_freely(draft, statement, body)
        found += draft.found
    known = {frozenset(edit.changes) for edit in usual}
    single = in_order(_distinct(found), patterns)
    return [edit for edit in (*single, *pairs(usual)) if frozenset(edit.changes) not in known]


def _drafts(source: str, lines: Iterable[int]) -> list[Draft]:
    """An empty draft for each function with a statement of a kernel; none where the source does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    text = Text(source)
    functions = _kernel_functions(tree, frozenset(lines))
    shifts = sorted({shift for function in functions for shift in shifts_of(function)})
    return [Draft(text, Scope(function, _constants(tree), _fractions(tree), shifts)) for function in functions]


def _distinct(edits: Sequence[Edit]) -> list[Edit]:
    """The first edit of each change."""
    first = {edit.changes: edit for edit in reversed(edits)}
    return [edit for edit in edits if first[edit.changes] is edit]


def _kernel_functions(tree: ast.Module, lines: frozenset[int]) -> list[ast.FunctionDef]:
    """The outermost functions with a statement of a kernel, and those of the module that a kernel calls to say something of its indices."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    holding = [f for f in functions if lines & set(range(f.lineno, (f.end_lineno or f.lineno) + 1))]
    kernels = [n for f in holding for n in ast.walk(f) if isinstance(n, ast.With) and launches(n)]
    asked = {
        n.func.id for k in kernels for n in ast.walk(k) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    holding += [f for f in functions if f.name in asked and f not in holding]
    return [f for f in holding if not any(g is not f and f in ast.walk(g) for g in holding)]


def _constants(tree: ast.Module) -> list[str]:
    """The numbers that the module gives a name."""
    found: list[str] = []
    for node in (n for n in tree.body if isinstance(n, ast.Assign)):
        parts = list(ast.walk(node.value))
        if all(isinstance(n, OF_NUMBERS) and not isinstance(getattr(n, "value", 0), (str, bytes)) for n in parts):
            found += [name for target in node.targets for name in target_names(target)]
    return found


def _fractions(tree: ast.Module) -> list[float]:
    """The fractions that stand in the module, the reference among it: scales and limits that both sides have to say."""
    values = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, float))
    return list(dict.fromkeys(value for value in values if value))


def _edits_of(draft: Draft) -> list[Edit]:
    _edit_defaults(draft)
    donors = Donors(draft.text, draft.scope)
    for kernel in draft.scope.kernels:
        for item in kernel.items:
            edit_grid(draft, kernel, item)
        _edit_block(draft, kernel.body, donors)
        for assignment in (n for n in ast.walk(kernel) if isinstance(n, (ast.Assign, ast.AugAssign))):
            edit_mask(draft, assignment, kernel.body)
        edit_sums(draft, kernel)
    for macro in draft.scope.macros:
        _edit_block(draft, macro.body, donors)
    for statement in draft.scope.beside():
        _edit_simple(draft, statement)
        edit_factory(draft, statement)
    return [*draft.found, *throughout(draft.found), *in_neighbours(draft.found)]


def _edit_defaults(draft: Draft) -> None:
    """Types that the factory's parameters default to."""
    for inner in ast.walk(draft.scope.function):
        for default in (*inner.args.defaults, *inner.args.kw_defaults) if isinstance(inner, ast.FunctionDef) else ():
            wide = WIDER.get(str(default.value)) if isinstance(default, ast.Constant) else None
            if default is not None and wide is not None:
                says = f"`{draft.text.of(default)}` as `{wide}`"
                change = draft.text.replaced(default, f'"{wide}"')
                draft.found.append(Edit(default.lineno, default.lineno, "data type", says, (change,)))


def _edit_block(draft: Draft, body: list[ast.stmt], donors: Donors) -> None:
    for number, statement in enumerate(body):
        if isinstance(statement, ast.For):
            edit_loop(draft, statement)
        elif isinstance(statement, (ast.If, ast.While)):
            _edit_guard(draft, statement)
            edit_by_parts(draft, statement, donors, [statement.test])
            edit_slips(draft, statement, donors, [statement.test])
        elif isinstance(statement, ast.With):
            for item in statement.items:
                edit_expression(draft, statement, item.context_expr)
        else:
            _edit_simple(draft, statement)
            edit_by_parts(draft, statement, donors, edit_loads(draft, statement, donors))
            edit_slips(draft, statement, donors, list(expressions(statement)))
            edit_means(draft, statement, donors, body)
            edit_tail(draft, statement)
            edit_place(draft, statement, body, number)
            edit_every_name(draft, statement, body[number + 1] if number + 1 < len(body) else None)
        edit_block_place(draft, statement, body, number)
        for name in ("body", "orelse"):
            _edit_block(draft, getattr(statement, name, []), donors)


def _edit_guard(draft: Draft, statement: ast.If | ast.While) -> None:
    edit_expression(draft, statement, statement.test)
    if isinstance(statement, ast.If):
        draft.swap(statement, statement.test, "True", "condition", LESS_USUAL)
        draft.swap(statement, statement.test, f"not ({draft.text.of(statement.test)})", "condition", LESS_USUAL)


def _edit_simple(draft: Draft, statement: ast.stmt) -> None:
    edit_assignment(draft, statement)
    for expression in expressions(statement):
        edit_expression(draft, statement, expression)
