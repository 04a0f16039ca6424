"""The user's line of a unit whose span does not show it. Pure: works on the text of the user's file.

Two kinds of units need this. A statement that a macro of the library made (`T.reduce_sum` and the like) carries the
line of the library; the lines of its neighbours bound where the call can be. An annotation of a block (a layout, a
safe value) carries no line; the call that made it is found by its name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
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
    innermost: ast.AST = tree
    start = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and start <= node.lineno <= line <= (
            node.end_lineno or 0
        ):
            innermost, start = node, node.lineno
    return innermost


@dataclass(frozen=True)
class Inner:
    """A statement that a macro of the library made: the library's line, and the buffers it works on."""

    file: str
    line: int
    buffers: frozenset[str]


def lines_of_calls(
    source: str, after: int | None, before: int | None, made: Sequence[Inner], taken: Iterable[int]
) -> list[int | None]:
    """For statements that macros made between two lines of the user (both exclusive), the line of each one's call.

    `taken` are lines that other statements of the kernel come from. If there are as many calls in the text as calls
    were made, they go together in order; otherwise a statement gets the one line whose call names most of its buffers.
    """
    bound = after if after is not None else before
    if bound is None:
        return [None] * len(made)
    used = set(taken)
    found = [
        call
        for call in calls(source, bound)
        if call.line not in used and (after is None or call.line > after) and (before is None or call.line < before)
    ]
    expansions = _expansions(made)
    if len(found) == len(expansions) and all(_fits(call, group) for call, group in zip(found, expansions, strict=True)):
        return [call.line for call, group in zip(found, expansions, strict=True) for _ in group]
    return [_best(found, inner) for inner in made]


def _expansions(made: Sequence[Inner]) -> list[list[Inner]]:
    """Statements by the call that made them: inside one call the library's lines go down the page."""
    groups: list[list[Inner]] = []
    for inner in made:
        last = groups[-1][-1] if groups else None
        if last is None or last.file != inner.file or last.line >= inner.line:
            groups.append([])
        groups[-1].append(inner)
    return groups


def _fits(call: Call, group: list[Inner]) -> bool:
    return any(inner.buffers & call.names for inner in group)


def _best(found: Sequence[Call], inner: Inner) -> int | None:
    scores: dict[int, int] = {}
    for call in found:
        scores[call.line] = max(scores.get(call.line, 0), len(inner.buffers & call.names))
    best = max(scores.values(), default=0)
    lines = [line for line, score in scores.items() if score == best]
    return lines[0] if best and len(lines) == 1 else None


def line_of_annotation(source: str, around: int, key: str, buffers: Iterable[str]) -> int | None:
    """The line of the call that wrote a block annotation; with several, the one that names a buffer of it."""
    writers = WRITERS.get(key, ())
    written = [c for c in calls(source, around) if c.name in writers]
    if len(written) > 1:
        wanted = set(buffers)
        written = [c for c in written if wanted & c.names]
    return written[0].line if len(written) == 1 else None
