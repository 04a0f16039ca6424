"""The same script with other sizes of its problem, where it says them plainly. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from triage.experiment.repairs.edit import Change
from triage.experiment.repairs.syntax import launches
from triage.experiment.repairs.text import Text

#: what the extents of a problem are called; blocks, heads and their like are bound to each other and to the kernel
EXTENT = re.compile(
    r"^([A-Z]{1,2}|[a-z]|rows|columns|cols|length|seq|seq_?len|tokens|num_tokens|hidden|features|size)$"
)
#: a smaller number counts heads, batches or taps
SMALLEST = 32


def other_sizes(source: str) -> tuple[Change, ...]:
    """Changes that make the problem larger by a power of two each, so that what was a multiple of a tile stays one, and what was
    none stays none. Empty where the script names no sizes outside of its kernels."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    text = Text(source)
    changes: list[Change] = []
    for statement in _outside_of_kernels(tree):
        for name, node, size in _assigned(statement):
            if EXTENT.match(name) and size >= SMALLEST:
                changes.append(text.replaced(node, str(size + (1 << (size.bit_length() - 1)))))
    return tuple(changes)


def _outside_of_kernels(tree: ast.Module) -> list[ast.Assign]:
    with_kernels = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(isinstance(n, ast.With) and launches(n) for n in ast.walk(node))
    ]
    inside = {id(node) for function in with_kernels for node in ast.walk(function)}
    return [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and id(node) not in inside]


def _assigned(statement: ast.Assign) -> Iterator[tuple[str, ast.expr, int]]:
    """Names that are given whole numbers, one by one or in a tuple, with where each number stands."""
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    for name, number in pairs:
        if isinstance(name, ast.Name) and isinstance(number, ast.Constant) and type(number.value) is int:
            yield name.id, number, number.value
