"""The questions about a syntax tree that `place` asks: calls and functions at a line, assignments, imports. Pure."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: the columns of an expression in its line, from 1 in characters, the end exclusive
Columns = tuple[int, int]


@dataclass(frozen=True)
class Imported:
    """A name that is called and comes from another module: `from ..a.b import name` is `("a", "b")`, level 2."""

    module: tuple[str, ...]
    level: int
    name: str


def parse_source(source: str) -> ast.Module | None:
    """The tree, or None where the text is not Python (to this interpreter)."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def calls_at(tree: ast.Module, line: int, failed: ast.expr | None = None) -> list[ast.Call]:
    """The calls spanning `line`, innermost first; of two that start there, the shorter one first.

    If it is known which expression `failed`, only that call and those around it.
    """
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    calls.sort(key=lambda call: ((call.end_lineno or 0) - call.lineno, _width(call)))
    return [call for call in calls if holds(call, failed)] if failed else calls


def expression_at(tree: ast.Module, source: str, line: int, columns: Columns | None) -> ast.expr | None:
    """The expression that fills exactly these columns. None if there is none: code that was rewritten before it ran
    may tell columns of the rewritten text."""
    rows = source.split("\n", line)
    if columns is None or not 0 < line <= len(rows):
        return None
    start, end = (len(rows[line - 1][: column - 1].encode("utf-8", "replace")) for column in columns)
    place = (line, start, line, end)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and place == (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset):
            return node
    return None


def holds(outer: ast.expr, inner: ast.expr) -> bool:
    """Whether one expression is another, or around it."""
    return any(node is inner for node in ast.walk(outer))


def is_beside(call: ast.Call, other: ast.Call) -> bool:
    """Whether two calls are apart: neither is around the other."""
    return not holds(call, other) and not holds(other, call)


def is_builtin(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id)


def _width(call: ast.Call) -> int:
    return (call.end_col_offset or 0) - call.col_offset


def functions_at(tree: ast.Module, line: int) -> Iterator[Function]:
    """The functions around `line` (their decorators count), innermost first."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, Function)
        and min([node.lineno, *(d.lineno for d in node.decorator_list)]) <= line <= (node.end_lineno or node.lineno)
    ]
    return iter(sorted(found, key=lambda node: -node.lineno))


def own_statements(scope: Function | ast.Module) -> Iterator[ast.stmt]:
    """The statements of a scope without those of the functions and classes in it."""
    waiting: list[ast.stmt] = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def assignments(tree: ast.Module, name: str, line: int) -> list[ast.Assign]:
    """`name = …` and `name[…] = …` up to `line`, in the scopes that `line` sees; the nearest first."""
    scopes: list[Function | ast.Module] = [*functions_at(tree, line), tree]
    found = []
    for scope in scopes:
        here = [
            node
            for node in own_statements(scope)
            if isinstance(node, ast.Assign)
            and (isinstance(scope, ast.Module) or node.lineno <= line)
            and base_of(node.targets[0]) == name
        ]
        before = [node for node in here if node.lineno <= line]
        found += sorted(before or here, key=lambda node: -node.lineno)
        if found:
            break
    return found


def definitions(tree: ast.Module, called: ast.expr) -> list[Function]:
    """The functions and methods of the source that `called` may be: by name, but for `module.name`, which is another's."""
    name = name_of(called)
    if name is None or (isinstance(called, ast.Attribute) and _is_module(tree, called.value)):
        return []
    return [n for n in ast.walk(tree) if isinstance(n, Function) and n.name == name]


def _is_module(tree: ast.Module, value: ast.expr) -> bool:
    """Whether `value` begins with a name that an `import` binds."""
    while isinstance(value, ast.Attribute):
        value = value.value
    bound = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    return isinstance(value, ast.Name) and value.id in bound


def can_end(body: Sequence[ast.stmt]) -> bool:
    """Whether control may reach the end of a block: where nobody can tell, it may."""
    last = body[-1]
    match last:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return False
        case ast.If():
            return not last.orelse or can_end(last.body) or can_end(last.orelse)
        case ast.With() | ast.AsyncWith():
            return can_end(last.body)
        case ast.Try():
            ways = [last.orelse or last.body, *(handler.body for handler in last.handlers)]
            return any(map(can_end, ways)) and not (last.finalbody and not can_end(last.finalbody))
        case ast.While():
            return not (isinstance(last.test, ast.Constant) and last.test.value)
    return True


def find_imported(source: str, line: int, columns: Columns | None = None) -> list[Imported]:
    """The functions called at `line` that the source imports, innermost call first.

    Of calls beside each other nobody can tell which one failed unless `columns` do: then none.
    """
    tree = parse_source(source)
    if tree is None:
        return []
    calls = calls_at(tree, line, expression_at(tree, source, line, columns))
    found = [(call, imported) for call in calls if (imported := _origin(tree, call.func))]
    for call, _ in found[:1]:
        if any(is_beside(call, other) and not is_builtin(other) for other in calls):
            return []
    return [imported for _, imported in found]


def _origin(tree: ast.Module, called: ast.expr) -> Imported | None:
    """Where the name called comes from, for `name(…)` and `module.name(…)`."""
    base = called.value if isinstance(called, ast.Attribute) else called
    if not isinstance(base, ast.Name):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == base.id:
                    module = tuple(node.module.split(".")) if node.module else ()
                    if isinstance(called, ast.Attribute):
                        return Imported((*module, alias.name), node.level, called.attr)
                    return Imported(module, node.level, alias.name)
        elif isinstance(node, ast.Import) and isinstance(called, ast.Attribute):
            for alias in node.names:
                if (alias.asname or alias.name) == base.id:
                    return Imported(tuple(alias.name.split(".")), 0, called.attr)
    return None


def name_of(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def base_of(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
