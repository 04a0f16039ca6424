"""The user's line of a unit whose span does not show it. Pure: works on the text of the user's file.

Two kinds of units need this. A statement that a macro of the library made (`T.reduce_sum` and the like) carries the
line of the library; the lines of its neighbours bound where the call can be. An annotation of a block (a layout, a
safe value) carries no line; the call that made it is found by its name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

#: block annotation -> the DSL functions that write it
WRITERS = {
    "layout_map": ("annotate_layout",),
    "safe_value_map": ("annotate_safe_value",),
    "l2_hit_ratio_map": ("annotate_l2_hit_ratio",),
    "padding_map": ("annotate_padding",),
    "tl.non_restrict_params": ("annotate_restrict_buffers",),
    "tl.ws_pipeline_depth": ("annotate_ws_pipeline_depth",),
    "tl.ws_schedule": ("annotate_ws_schedule",),
    "barrier_init": ("alloc_barrier", "alloc_cluster_barrier"),
    "reducer_info": ("alloc_reducer",),
    "reducer_info_v2": ("alloc_reducer",),
    "threadblock_swizzle_pattern": ("use_swizzle",),
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
    function = _enclosing(tree, around)
    found = []
    for node in ast.walk(function):
        value = getattr(node, "value", None) if isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.Call):
            names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            names |= {n.attr for n in ast.walk(value) if isinstance(n, ast.Attribute)}
            callee = value.func
            name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
            found.append(Call(node.lineno, name, frozenset(names)))
    return tuple(sorted(found, key=lambda call: call.line))


def _enclosing(tree: ast.Module, line: int) -> ast.AST:
    """The innermost function whose text contains the line, else the module."""
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno) if around else tree


def line_of_call(
    source: str, after: int | None, before: int | None, buffers: Iterable[str], taken: Iterable[int]
) -> int | None:
    """The line between `after` and `before` (both exclusive) whose call works on `buffers`, None unless one stands out.

    `taken` are lines that other statements of the kernel come from.
    """
    bound = after if after is not None else before
    if bound is None:
        return None
    wanted, used = set(buffers), set(taken)
    inside = [
        c for c in calls(source, bound) if (after is None or c.line > after) and (before is None or c.line < before)
    ]
    ranked: dict[int, int] = {}
    for call in inside:
        if call.line not in used:
            ranked[call.line] = max(ranked.get(call.line, 0), len(wanted & call.names))
    best = max(ranked.values(), default=0)
    lines = [line for line, score in ranked.items() if score == best]
    return lines[0] if best and len(lines) == 1 else None


def line_of_annotation(source: str, around: int, key: str, buffers: Iterable[str]) -> int | None:
    """The line of the call that wrote a block annotation; with several, the one that names a buffer of it."""
    writers = WRITERS.get(key, ())
    written = [c for c in calls(source, around) if c.name in writers]
    if len(written) > 1:
        wanted = set(buffers)
        written = [c for c in written if wanted & c.names]
    return written[0].line if len(written) == 1 else None
