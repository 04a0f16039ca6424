"""Source places of tilelang's IR: spans of statements, buffers and functions as `{"file", "line"}`."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from typing import Any


def of_statement(stmt: Any) -> dict[str, Any] | None:
    return _place("get_stmt_span", stmt)


def of_buffer(buffer: Any) -> dict[str, Any] | None:
    return _place("get_buffer_span", buffer)


def of_function(func: Any) -> dict[str, Any] | None:
    return _place("get_prim_func_span", func)


def _place(getter: str, node: Any) -> dict[str, Any] | None:
    ir = sys.modules.get("tilelang.ir")
    get = getattr(ir, getter, None)  # a tilelang older than spans has no places
    span = get(node) if get is not None else None
    if span is None or span.line <= 0:
        return None
    return {"file": os.path.abspath(span.source_name.name), "line": int(span.line)}


def definition(func: Any) -> dict[str, Any] | None:
    """The line of the `def` that a PrimFunc was built from."""
    place = of_function(func)
    return of_code(getattr(func, "orig_func", None)) if place is None else _at_def(place)


def of_code(function: Any) -> dict[str, Any] | None:
    """The line of the `def` of a Python function (or of what stands for one, with a `__code__`)."""
    code = getattr(function, "__code__", None)
    return _at_def({"file": os.path.abspath(code.co_filename), "line": code.co_firstlineno}) if code else None


def qualified_name(func: Any) -> str:
    """The names of the functions around the `def` that a PrimFunc was built from, and its own: `matmul.main`."""
    place = definition(func)
    if place is None:
        return ""
    try:
        tree = ast.parse("".join(linecache.getlines(place["file"])))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    around = [
        node for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and node.lineno <= place["line"] <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    return ".".join(node.name for node in sorted(around, key=lambda node: node.lineno))


def _at_def(place: dict[str, Any]) -> dict[str, Any]:
    line = _enclosing_def(place["file"], place["line"])
    return place if line is None else {"file": place["file"], "line": line}


def _enclosing_def(file: str, line: int) -> int | None:
    """The line of the innermost `def` whose decorators, header or body hold `line`."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    best = None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= (node.end_lineno or line) and (best is None or node.lineno > best):
                best = node.lineno
    return best
