"""Roles of a warp-specialized block: groups of threads that run different statements and meet at barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .expressions import Expressions, children, kind, op_name
from .frame import Frame
from .memory import lane
from .outcome import Unsupported

WARP = 32
#: calls by which threads of different roles wait for each other
WAITS = frozenset({"tl.mbarrier_wait_parity"})
ARRIVALS = frozenset(
    {
        "tirx.ptx_arrive_barrier",
        "tirx.ptx_arrive_barrier_expect_tx",
        "tl.ptx_cp_async_barrier_noinc",
        "tirx.ptx_cp_async_barrier",
    }
)
BARRIERS = WAITS | ARRIVALS
SPECIALIZED = "warp_specialize"


def has_barriers(body: Any) -> bool:
    return _any(body, lambda node: kind(node) == "Call" and op_name(node) in WAITS)


def role_conditions(body: Any) -> list[Any]:
    """The branches that give a group of threads statements of its own."""
    from tvm import tirx

    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.IfThenElse) and _any(node, _of_a_role):
            found.append(node.condition)

    tirx.stmt_functor.post_order_visit(body, visit)
    return found


def _of_a_role(node: Any) -> bool:
    if kind(node) == "AttrStmt":
        return str(node.attr_key) == SPECIALIZED
    return kind(node) == "Call" and op_name(node) in BARRIERS


def _any(body: Any, test: Any) -> bool:
    from tvm import tirx

    found = []

    def visit(node: Any) -> None:
        if not found and test(node):
            found.append(True)

    tirx.stmt_functor.post_order_visit(body, visit)
    return bool(found)


def groups(body: Any, indices: dict[Any, int], extents: tuple[int, ...]) -> tuple[list[np.ndarray], list[Any]]:
    """The masks of the roles, over the axes of the threads, and the conditions that part them.

    `indices` are the variables of thread indices and their axes. Only whole warps are parted; a condition on single
    threads within a role is an ordinary one.
    """
    bindings = _bindings(body)
    parted: list[Any] = []
    signature = np.zeros(extents[::-1], np.int64)
    for condition in role_conditions(body):
        mask = _mask(condition, indices, bindings, extents)
        if mask is None:
            continue
        flat = mask.reshape(-1)
        whole = flat.size % WARP == 0 and (flat.reshape(-1, WARP) == flat.reshape(-1, WARP)[:, :1]).all()
        if whole:
            parted.append(condition)
            signature = np.unique(signature * 2 + mask, return_inverse=True)[1].reshape(signature.shape)
    return [signature == number for number in np.unique(signature)], parted


def _bindings(body: Any) -> dict[Any, Any]:
    from tvm import tirx

    found: dict[Any, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Bind):
            found[node.var] = node.value

    tirx.stmt_functor.post_order_visit(body, visit)
    return found


def _mask(
    condition: Any, indices: dict[Any, int], bindings: dict[Any, Any], extents: tuple[int, ...]
) -> np.ndarray | None:
    """The threads for which a condition holds, or None if it depends on more than the thread."""
    compiler = _OfThreads()
    compiler.deferred = {variable: value for variable, value in bindings.items() if variable not in indices}
    for variable in indices:
        compiler.slot(variable)
    if not _depends_on_threads(condition, indices, bindings):
        return None
    try:
        closure = compiler.value(condition)
    except Unsupported:
        return None
    frame = Frame(len(compiler.slots), 0, float("inf"), None)
    for variable, axis in indices.items():
        frame.variables[compiler.slots[variable]] = lane(axis, extents[axis]) if axis < len(extents) else 0
    value = np.asarray(closure(frame))
    return np.broadcast_to(value, extents[::-1]) if value.dtype == np.bool_ else None


def _depends_on_threads(node: Any, indices: dict[Any, int], bindings: dict[Any, Any]) -> bool:
    if kind(node) == "Var":
        return node in indices or (node in bindings and _depends_on_threads(bindings[node], indices, bindings))
    return any(_depends_on_threads(child, indices, bindings) for child in children(node))


class _OfThreads(Expressions):
    """Expressions of thread indices alone."""

    def call(self, node: Any) -> Any:
        raise Unsupported(f"operator {op_name(node)} in the condition of a role", self.place)

    def _view(self, buffer: Any) -> Any:
        raise Unsupported("memory in the condition of a role", self.place)
