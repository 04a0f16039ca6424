"""Where a source sets environment variables. Pure: source text in, spots out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from triage.knowledge.place import Spot
from triage.knowledge.syntax import name_of, parse_source


def find_settings(source: str, variables: Sequence[str]) -> list[tuple[Spot, str | None]]:
    """Every place that sets one of the variables in `os.environ`, with the value where it is a string literal there."""
    tree = parse_source(source)
    found = [setting for node in ast.walk(tree) for setting in _settings(node)] if tree else []
    return [
        (Spot(at.lineno, at.col_offset + 1), _literal(value))
        for at, name, value in found
        if _literal(name) in variables
    ]


def _settings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Place, name and value of the variables that one node of the tree sets."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and _is_environ(target.value):
                yield target, target.slice, node.value
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    method, owner = node.func.attr, node.func.value
    if len(node.args) == 2 and (method == "putenv" or (method == "setdefault" and _is_environ(owner))):
        yield node, node.args[0], node.args[1]
    if method == "update" and _is_environ(owner):
        for keyword in node.keywords:
            if keyword.arg:
                yield keyword.value, ast.Constant(keyword.arg), keyword.value
        for argument in node.args:
            if isinstance(argument, ast.Dict):
                yield from ((key, key, value) for key, value in zip(argument.keys, argument.values, strict=True) if key)


def _is_environ(node: ast.expr) -> bool:
    return name_of(node) == "environ"


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
