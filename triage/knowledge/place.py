"""Which place of the user's source a finding points at, found in the syntax tree. Pure: source text in, spot out.

Several calls may stand in one line. `columns`, where the interpreter told them, say which one failed; else calls beside
each other are not told apart, and what is true of one of them only is not found.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from triage.knowledge.syntax import (
    Columns,
    Function,
    assignments,
    calls_at,
    can_end,
    definitions,
    expression_at,
    functions_at,
    is_beside,
    is_builtin,
    name_of,
    own_statements,
    parse_source,
)

#: How often a name is followed to what it was assigned from: `k = factory(…)`, `factory = jit(out_idx=…)(f)`, …
MAX_HOPS = 4


@dataclass(frozen=True)
class Spot:
    """A place in a source text; `line` counts from 1, `column` too, in bytes of UTF-8 as `ast` does."""

    line: int
    column: int
    function: str | None = None


def find_call(source: str, line: int, columns: Columns | None = None) -> Spot | None:
    """The call that failed on `line`, where it is known, else the outermost one there that has no other beside it."""
    tree = parse_source(source)
    if tree is None:
        return None
    failed = expression_at(tree, source, line, columns)
    if isinstance(failed, ast.Call):
        return _spot(failed, tree, line)
    calls = calls_at(tree, line, failed)
    return _spot(calls[-1], tree, line) if calls and not _others(calls[-1], calls) else None


def find_argument(source: str, line: int, argument: str, columns: Columns | None = None) -> Spot | None:
    """The keyword `argument` of the call at `line`, of the calls around it, or of where what is called comes from.

    Looked at in this order: the calls that span the line, innermost first; the entry of a dict they are passed as
    `**name`; the decorators of the function called, and the call a called variable was assigned from; the decorators
    of the functions around the line. `argument` may be a position, `"0"`. None if it is nowhere.
    """
    tree = parse_source(source)
    if tree is None:
        return None
    calls = calls_at(tree, line, expression_at(tree, source, line, columns))
    inside = [(call, spot) for call in calls if (spot := _in_call(call, argument, tree, line))]
    found = inside or [(call, spot) for call in calls if (spot := _behind(call.func, argument, tree, line, MAX_HOPS))]
    if found:
        first, spot = found[0]
        return None if any(is_beside(first, other) and spot != elsewhere for other, elsewhere in found) else spot
    for function in functions_at(tree, line):
        if spot := _in_decorators(function, argument, tree):
            return spot
    return None


def find_decorator(source: str, line: int, columns: Columns | None = None) -> Spot | None:
    """The first decorator of the function called at `line`, else of the innermost decorated function around it."""
    tree = parse_source(source)
    if tree is None:
        return None
    called = _called(tree, source, line, columns)
    around = [f for f in functions_at(tree, line) if f.decorator_list]
    decorated = [called] if called and called.decorator_list else around
    return _spot(decorated[0].decorator_list[0], tree, line) if decorated else None


def find_return(source: str, line: int, columns: Columns | None = None) -> Spot | None:
    """What the function called at `line` returns: its last `return`, else its `def` line if it can end without one.

    None if no function, or more than one, has a name that is called there.
    """
    tree = parse_source(source)
    called = _called(tree, source, line, columns) if tree else None
    if called is None:
        return None
    returns = [node for node in own_statements(called) if isinstance(node, ast.Return)]
    if can_end(called.body) or not returns:
        return Spot(called.lineno, called.col_offset + 1, called.name)
    last = max(returns, key=lambda node: node.lineno)
    return Spot(last.lineno, last.col_offset + 1, called.name)


def _called(tree: ast.Module, source: str, line: int, columns: Columns | None) -> Function | None:
    """The function of this source that the failed call calls, or is given the result of.

    None if no function, or more than one, has a name that is called there, or other calls stand beside that one.
    """
    failed = expression_at(tree, source, line, columns)
    if isinstance(failed, ast.Call):
        given = [node for node in ast.walk(failed) if isinstance(node, ast.Call) and node is not failed]
        ways = [[failed], given]
    else:
        ways = [calls_at(tree, line, failed)]
    for calls in ways:
        found = [(call, function) for call in calls for function in definitions(tree, call.func)]
        if found:
            call, function = found[0]
            return function if len(found) == 1 and not _others(call, calls) else None
    made = [function for call in ways[0] for function in _made_by(call, tree, line)]
    return made[0] if len(made) == 1 else None


def _others(call: ast.Call, calls: Sequence[ast.Call]) -> bool:
    """Whether a call stands beside this one that may be what failed just as well."""
    return any(is_beside(call, other) and not is_builtin(other) for other in calls)


def _made_by(call: ast.Call, tree: ast.Module, line: int) -> list[Function]:
    """The functions whose result a variable holds that `call` is given first."""
    if not (call.args and isinstance(call.args[0], ast.Name)):
        return []
    made = assignments(tree, call.args[0].id, line)[:1]
    return [f for node in made if isinstance(node.value, ast.Call) for f in definitions(tree, node.value.func)]


def find_inner_assignment(source: str, line: int, name: str) -> Spot | None:
    """The last assignment to `name` above `line` in a `for`, `while`, `if` or `with` that has ended there.

    Looked for in the innermost function around `line`. None if there is none.
    """
    tree = parse_source(source)
    function = next(functions_at(tree, line), None) if tree else None
    if function is None:
        return None
    ended = [
        block
        for block in own_statements(function)
        if isinstance(block, ast.For | ast.While | ast.If | ast.With) and (block.end_lineno or block.lineno) < line
    ]
    found = [
        node
        for block in ended
        for node in ast.walk(block)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
    ]
    last = max(found, key=lambda node: (node.lineno, node.col_offset), default=None)
    return Spot(last.lineno, last.col_offset + 1, function.name) if last else None


def find_only_argument(source: str, line: int, function: str, argument: str) -> Spot | None:
    """The keyword `argument` if it occurs exactly once in a function; for when its line is not known.

    The function is the one whose decorator is at `line`, else the only one called `function`.
    """
    tree = parse_source(source)
    if tree is None:
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    decorated = [f for f in functions if any(d.lineno <= line <= (d.end_lineno or d.lineno) for d in f.decorator_list)]
    chosen = decorated or [f for f in functions if f.name == function]
    if len(chosen) != 1:
        return None
    keywords = [node for node in ast.walk(chosen[0]) if isinstance(node, ast.keyword) and node.arg == argument]
    return Spot(keywords[0].lineno, keywords[0].col_offset + 1, chosen[0].name) if len(keywords) == 1 else None


def find_launch(source: str, line: int, columns: Columns | None = None) -> Spot | None:
    """The `T.Kernel(…)` of the function around `line`, or of the function called there; of several, that around it."""
    tree = parse_source(source)
    if tree is None:
        return None
    called = _called(tree, source, line, columns)
    for function in (*functions_at(tree, line), *([called] if called else ())):
        launches = [
            (node, item.context_expr)
            for node in ast.walk(function)
            if isinstance(node, ast.With)
            for item in node.items
            if isinstance(item.context_expr, ast.Call) and name_of(item.context_expr.func) == "Kernel"
        ]
        around = [pair for pair in launches if pair[0].lineno <= line <= (pair[0].end_lineno or pair[0].lineno)]
        chosen = around[-1:] or launches
        if chosen:
            return _spot(chosen[0][1], tree, line) if len(chosen) == 1 else None
    return None


def spans(source: str, function: str, line: int) -> bool | None:
    """Whether a function of this name, decorators included, covers `line`; None if the source has no such function."""
    tree = parse_source(source)
    if tree is None:
        return None
    named = any(isinstance(node, Function) and node.name == function for node in ast.walk(tree))
    return any(f.name == function for f in functions_at(tree, line)) if named else None


def decorates(source: str, function: str, line: int) -> bool:
    """Whether `line` belongs to a decorator of a function of this name; True where nobody can tell, in no Python."""
    tree = parse_source(source)
    return tree is None or any(
        decorator.lineno <= line <= (decorator.end_lineno or decorator.lineno)
        for node in ast.walk(tree)
        if isinstance(node, Function) and node.name == function
        for decorator in node.decorator_list
    )


def lines_of_function(source: str, function: str, line: int) -> range | None:
    """The lines of the function of this name around `line`, decorators included; None if there is none."""
    tree = parse_source(source)
    found = next((f for f in functions_at(tree, line) if f.name == function), None) if tree else None
    if found is None:
        return None
    first = min([found.lineno, *(d.lineno for d in found.decorator_list)])
    return range(first, (found.end_lineno or found.lineno) + 1)


def find_handler(source: str, line: int) -> int | None:
    """The line of the first `except` of the innermost `try` around `line` that has one, in the function of that line."""
    tree = parse_source(source)
    if tree is None:
        return None
    scope = next(functions_at(tree, line), tree)
    around = [
        node
        for node in own_statements(scope)
        if isinstance(node, ast.Try)
        and node.handlers
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or node.body[-1].lineno)
    ]
    return max(around, key=lambda node: node.lineno).handlers[0].lineno if around else None


def lines_that_name_constant(source: str, text: str) -> list[int]:
    """The lines where the string `text` is the default of a parameter, or all that is assigned to a variable."""
    tree = parse_source(source)
    values: list[ast.expr | None] = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.arguments):
            values += [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            values.append(node.value)
    return sorted({v.lineno for v in values if isinstance(v, ast.Constant) and v.value == text})


def same_statement(source: str, one: int, other: int) -> bool:
    """Whether two lines belong to one simple statement, or to the head of one that has a body."""
    if one == other:
        return True
    tree = parse_source(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if node.lineno <= one <= end and node.lineno <= other <= end:
                return True
    return False


def _spot(node: ast.expr | ast.keyword, tree: ast.AST | None, line: int) -> Spot:
    around = next(functions_at(tree, node.lineno), None) if isinstance(tree, ast.Module) else None
    return Spot(node.lineno, node.col_offset + 1, around.name if around else None)


def _in_call(call: ast.Call, argument: str, tree: ast.Module, line: int) -> Spot | None:
    if argument.isdigit():
        position = int(argument)
        plain = not any(isinstance(a, ast.Starred) for a in call.args[: position + 1])
        return _spot(call.args[position], tree, line) if plain and position < len(call.args) else None
    for keyword in call.keywords:
        if keyword.arg == argument:
            return _spot(keyword, tree, line)
    for keyword in call.keywords:
        if keyword.arg is None and (spot := _in_mapping(keyword.value, argument, tree, line)):
            return spot
    return None


def _in_mapping(value: ast.expr, argument: str, tree: ast.Module, line: int, hops: int = MAX_HOPS) -> Spot | None:
    """The entry `argument` of a dict display, of `dict(…)`, or of the variable that holds one."""
    if hops == 0:
        return None
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == argument:
                return _spot(key, tree, line)
            if key is None and (spot := _in_mapping(item, argument, tree, line, hops - 1)):
                return spot
    if isinstance(value, ast.Call) and name_of(value.func) == "dict":
        return next((_spot(keyword, tree, line) for keyword in value.keywords if keyword.arg == argument), None)
    if isinstance(value, ast.Name):
        for node in assignments(tree, value.id, line):
            target = node.targets[0]
            if isinstance(target, ast.Subscript):
                if isinstance(target.slice, ast.Constant) and target.slice.value == argument:
                    return _spot(target, tree, line)
            elif spot := _in_mapping(node.value, argument, tree, node.lineno - 1, hops - 1):
                return spot
    return None


def _behind(called: ast.expr, argument: str, tree: ast.Module, line: int, hops: int) -> Spot | None:
    """`argument` where the thing called was made: its decorators, or the call whose result it is."""
    if hops == 0:
        return None
    if isinstance(called, ast.Call):
        return _in_call(called, argument, tree, line) or _behind(called.func, argument, tree, line, hops - 1)
    found = [spot for f in definitions(tree, called) if (spot := _in_decorators(f, argument, tree))]
    if found:  # of two functions of one name nobody can tell here which was called
        return found[0] if len(found) == 1 else None
    if isinstance(called, ast.Name):
        for node in assignments(tree, called.id, line):
            if isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
                spot = _in_call(node.value, argument, tree, node.lineno)
                return spot or _behind(node.value.func, argument, tree, node.lineno - 1, hops - 1)
    return None


def _in_decorators(function: Function, argument: str, tree: ast.Module) -> Spot | None:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and (spot := _in_call(decorator, argument, tree, decorator.lineno)):
            return spot
    return None
