"""What the operands of a comparison were computed from, as the script's text says it: for telling whether a changed copy of
the script still compares the same things.

From the operands it goes by names to what was bound to them last, to what a call gave for a parameter, and into the functions
of the script that are called. Kernels are left out, and so are numbers that may be sizes and the factories that fill a tensor:
sizes and inputs may change. What comes out is a digest.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import deciding
from .deciding import Step

#: what makes an input of nothing but its shape, and what `experiment/inputs.py` puts in its place
FACTORIES = frozenset(
    {"randn", "rand", "randint", "normal", "randn_like", "rand_like", "randint_like", "ones", "zeros", "ones_like"}
    | {"zeros_like", "empty", "empty_like", "arange", "last_one", "first_one", "ramp", "small_integers"}
)  # fmt: skip
#: how functions that compare call their operands
OPERANDS = frozenset({"actual", "expected", "desired", "input", "other", "a", "b", "a1", "a2", "tensor_a", "tensor_b"})
FILLING = frozenset({"normal_", "uniform_", "random_", "fill_"})


def of_call(name: str, users: list[tuple[types.FrameType, int]], is_user: Callable[[str], bool]) -> str:
    """The digest for the operands of the function that the innermost of the user's frames calls; "" if they cannot be told."""
    if not users:
        return ""
    frame, line = users[-1]
    statement = deciding.statement(frame, line)
    calls = [
        node for node in ast.walk(statement)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name
    ] if statement is not None else []  # fmt: skip
    if statement is None or len(calls) > 1:
        return ""
    if not calls:  # a function of a package, which compares in its turn
        return digest([Step(statement, frame)], users, is_user)
    call = calls[0]
    operands = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg in OPERANDS)]
    if isinstance(call.func, ast.Attribute) and len(call.args) < 2:  # a method: `out.allclose(ref)`
        operands.append(call.func.value)
    return digest([Step(node, frame) for node in operands], users, is_user)


def of_statement(users: list[tuple[types.FrameType, int]], is_user: Callable[[str], bool]) -> str:
    """The digest for all that the statement reads which the innermost of the user's frames is at; "" if it cannot be told."""
    statement = deciding.statement(*users[-1]) if users else None
    return "" if statement is None else digest([Step(statement, users[-1][0])], users, is_user)


def digest(steps: list[Step], users: list[tuple[types.FrameType, int]], is_user: Callable[[str], bool]) -> str:
    """The same for the same expressions, whatever their numbers and inputs; "" where there are too many to follow."""
    callers = {inner[0]: outer for outer, inner in itertools.pairwise(users)}
    seen: set[tuple[Any, ...]] = set()
    queue, found = list(steps), set()
    for step in queue:  # which grows
        if len(queue) > deciding.LIMIT:
            return ""
        found.add(_normal(step.node))
        for name in (n for n in ast.walk(step.node) if isinstance(n, ast.Name)):
            value = deciding.value_of(name, step.frame)
            if (step.frame, name.id) in seen or isinstance(value, types.ModuleType) or _is_kernel(value):
                continue
            seen.add((step.frame, name.id))
            if isinstance(value, types.FunctionType) and is_user(value.__code__.co_filename):
                found |= set(_functions(value, is_user, set()))
                continue
            queue += [Step(node, step.frame) for node in deciding.bound_before(step.frame, name)]
            if step.frame in callers:
                queue += [Step(node, callers[step.frame][0]) for node in deciding.given(step.frame, name.id, callers)]
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:16]


def _functions(
    function: types.FunctionType, is_user: Callable[[str], bool], seen: set[types.CodeType]
) -> Iterator[str]:
    """The text of a function of the script, and of those that it calls; none of one that makes a kernel."""
    body = deciding.body_of(function.__code__)
    kernel = any(isinstance(n, ast.Attribute) and n.attr in ("prim_func", "Kernel") for n in ast.walk(body))
    if function.__code__ in seen or kernel:
        return
    seen.add(function.__code__)
    yield _normal(body)
    for name in {n.id for n in ast.walk(body) if isinstance(n, ast.Name)}:
        other = function.__globals__.get(name)
        if isinstance(other, types.FunctionType) and is_user(other.__code__.co_filename):
            yield from _functions(other, is_user, seen)


def _is_kernel(value: Any) -> bool:
    """Whether it is an object of tilelang: what it computes is known by its program."""
    return type(value).__module__.partition(".")[0] == "tilelang"


class _Normal(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(0) if isinstance(node.value, (int, float)) and not isinstance(node.value, bool) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A number that values are multiplied by, or the like, stays; one that divides sizes is a size."""
        sized = isinstance(node.op, (ast.FloorDiv, ast.Mod))
        for side in ("left", "right"):
            part = getattr(node, side)
            if sized or not isinstance(part, ast.Constant):
                setattr(node, side, self.visit(part))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func).rpartition(".")[2]
        return ast.Name("INPUT") if name in FACTORIES | FILLING else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if len(node.body) > 1 and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)


def _normal(node: ast.AST) -> str:
    return ast.dump(_Normal().visit(copy.deepcopy(node)), annotate_fields=False)
