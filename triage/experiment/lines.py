"""The user's line of an annotation. Pure: works on the text of the user's file.

An annotation of a block (a layout, a safe value) carries no line; the call that wrote it is found by its name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

#: block annotation -> the DSL functions whose only purpose is to write it
WRITERS = {
    "layout_map": ("annotate_layout",),
    "safe_value_map": ("annotate_safe_value",),
    "l2_hit_ratio_map": ("annotate_l2_hit_ratio",),
    "padding_map": ("annotate_padding",),
    "tl.non_restrict_params": ("annotate_restrict_buffers",),
    "tl.ws_pipeline_depth": ("annotate_ws_pipeline_depth",),
    "tl.ws_schedule": ("annotate_ws_schedule",),
}


@dataclass(frozen=True)
class Call:
    """A call that is a statement of its own, or the value of an assignment: line, name of the callee, names in it."""

    line: int
    name: str
    names: frozenset[str]


def calls(source: str, around: int) -> tuple[Call, ...]:
    """The calls in the function that encloses line `around`, in the order of their lines; none for broken source."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = []
    for node in ast.walk(_enclosing(tree, around)):
        if isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            call = node.value
            names = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
            names |= {n.attr for n in ast.walk(call) if isinstance(n, ast.Attribute)}
            callee = call.func
            name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
            found.append(Call(node.lineno, name, frozenset(names)))
    return tuple(sorted(found, key=lambda call: call.line))


def _enclosing(tree: ast.Module, line: int) -> ast.AST:
    """The innermost function whose text contains the line, else the module."""
    innermost: ast.AST = tree
    start = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and start <= node.lineno <= line <= (
            node.end_lineno or 0
        ):
            innermost, start = node, node.lineno
    return innermost


def line_of_annotation(source: str, around: int, key: str, buffers: Iterable[str]) -> int | None:
    """The line of the call that wrote a block annotation; with several, the one that names a buffer of it."""
    writers = WRITERS.get(key, ())
    written = [c for c in calls(source, around) if c.name in writers]
    if not written:  # in a macro or a helper: anywhere in the file
        written = [c for c in calls(source, 0) if c.name in writers]
    if len(written) > 1:
        wanted = set(buffers)
        written = [c for c in written if wanted & c.names]
    return written[0].line if len(written) == 1 else None
