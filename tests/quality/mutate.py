"""Break a healthy script in one place: the mistakes that authors make, and the line that is then wrong.

A mutation changes one expression; the changed line carries MARK. Where it applies is chosen by a seed, so that a run can be
repeated. None where a script holds nothing of the kind.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator

from rewrite import MARK, Script

Edit = tuple[ast.expr, str]


def mutate(text: str, kind: str, seed: int) -> Script | None:
    """The script with one mistake of a kind, or None."""
    tree = ast.parse(text)
    edits = [(node, new) for node, new in KINDS[kind](tree) if node.lineno == node.end_lineno]
    if not edits:
        return None
    node, new = random.Random(f"{kind}/{seed}").choice(edits)
    lines = text.splitlines()
    row = node.lineno - 1
    line = lines[row]
    lines[row] = f"{line[: node.col_offset]}{new}{line[node.end_col_offset :]}  {MARK}"
    return Script("kernel.py", {"kernel.py": "\n".join(lines) + "\n"})


# ----------------------------------------------------------------------------------------------------- what to break


def kernels(tree: ast.AST) -> Iterator[ast.With]:
    """The `with T.Kernel(…)` blocks: what is inside them is a kernel's body."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and any(is_call(item.context_expr, "Kernel") for item in node.items):
            yield node


def kernel_body(tree: ast.AST) -> Iterator[ast.AST]:
    for kernel in kernels(tree):
        for statement in kernel.body:
            yield from ast.walk(statement)


def is_call(node: ast.AST, *names: str) -> bool:
    """Whether a node is a call of `T.NAME`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in {f"T.{name}" for name in names}


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    return (node for node in kernel_body(tree) if isinstance(node, ast.Call) and is_call(node, *names))


def _keywords(calls: Iterator[ast.Call], name: str) -> Iterator[ast.expr]:
    return (k.value for call in calls for k in call.keywords if k.arg == name)


def misspelt_attribute(tree: ast.AST) -> Iterator[Edit]:
    for node in kernel_body(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "T":
            yield node, f"T.{node.attr}_"


def undefined_name(tree: ast.AST) -> Iterator[Edit]:
    for node in kernel_body(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != "T":
            yield node, f"{node.id}_old"


def unknown_keyword(tree: ast.AST) -> Iterator[Edit]:
    for call in calls(tree, "copy", "gemm", "reduce_sum", "reduce_max", "Pipelined", "fill", "clear"):
        inner = ast.unparse(call)
        yield call, f"{inner[:-1]}, stride=2)"


def missing_argument(tree: ast.AST) -> Iterator[Edit]:
    for call in calls(tree, "copy", "gemm", "fill"):
        if len(call.args) > 1 and not call.keywords:
            yield call, f"{ast.unparse(call.func)}({ast.unparse(call.args[0])})"


def index_too_many(tree: ast.AST) -> Iterator[Edit]:
    """An element access, so a scalar context, with one index more."""
    for node in kernel_body(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            if not any(isinstance(n, ast.Slice) for n in ast.walk(target)):
                yield target, f"{ast.unparse(target)[:-1]}, 0, 0]"


def wrong_dtype(tree: ast.AST) -> Iterator[Edit]:
    for call in calls(tree, "alloc_fragment", "alloc_local", "Cast", "cast"):
        for node in call.args:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node, '"float17"'


def reduced_dimension(tree: ast.AST) -> Iterator[Edit]:
    for value in _keywords(calls(tree, "reduce_sum", "reduce_max", "reduce_min", "reduce_absmax"), "dim"):
        yield value, "4"


def stages_as_text(tree: ast.AST) -> Iterator[Edit]:
    for value in _keywords(calls(tree, "Pipelined"), "num_stages"):
        yield value, '"2"'


def too_many_threads(tree: ast.AST) -> Iterator[Edit]:
    for kernel in kernels(tree):
        for item in kernel.items:
            if isinstance(item.context_expr, ast.Call):
                for k in item.context_expr.keywords:
                    if k.arg == "threads":
                        yield k.value, "2048"


def output_index(tree: ast.AST) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for k in node.keywords:
                if k.arg == "out_idx":
                    yield k.value, "[17]"


def truth_of_expression(tree: ast.AST) -> Iterator[Edit]:
    """Python's own `max` of two kernel values asks for the truth of a comparison."""
    for call in calls(tree, "max", "min"):
        yield call, f"{ast.unparse(call).replace('T.', '', 1)}"


def math_of_host(tree: ast.AST) -> Iterator[Edit]:
    for call in calls(tree, "exp", "exp2", "sqrt", "log", "log2"):
        yield call, f"__import__('math').exp({', '.join(ast.unparse(a) for a in call.args)})"


KINDS: dict[str, Callable[[ast.Module], Iterator[Edit]]] = {
    "misspelt-attribute": misspelt_attribute,
    "undefined-name": undefined_name,
    "unknown-keyword": unknown_keyword,
    "missing-argument": missing_argument,
    "index-too-many": index_too_many,
    "wrong-dtype": wrong_dtype,
    "reduced-dimension": reduced_dimension,
    "stages-as-text": stages_as_text,
    "too-many-threads": too_many_threads,
    "output-index": output_index,
    "truth-of-expression": truth_of_expression,
    "math-of-host": math_of_host,
}
