"""Layouts of a PrimFunc that came out of saved JSON.

A layout maps its input indices, which are variables that the compiler holds once per process (`_i`, `_j`, …, and `_rep`
for replicas in a fragment). Loading makes new variables of the same names, which the compiler takes for unbound ones:
the layout would be rejected as not injective, or index with values that nobody gives. `restore` puts the process's own
variables back by building every layout anew.
"""

from __future__ import annotations

from typing import Any

from . import tir, units

#: type keys in the saved JSON of what has such variables
TYPE_KEYS = ('"tl.Layout"', '"tl.Fragment"', '"tl.PartialFragment"')
REPLICA = "_rep"


class LostLayout(ValueError):
    """A layout that cannot be built again from what was saved of it."""


def load(text: str) -> Any:
    """The PrimFunc of saved JSON, its layouts built anew. Raises `LostLayout`."""
    from tilelang import tvm

    func = tvm.ir.load_json(text)
    return restore(func) if any(key in text for key in TYPE_KEYS) else func


def restore(func: Any) -> Any:
    """The PrimFunc with every layout in its annotations built anew. Raises `LostLayout`."""
    from tvm import tirx

    edits: dict[str, list[tuple[str, list[str], Any]]] = {}
    for path, _, statement in units.walk(func.body):
        for key, value in _annotations(statement, tirx).items():
            new = _restored(value)
            if new is not value:
                edits.setdefault(path, []).append(("note", [str(key)], new))
    return func.with_body(tir.Editor(tirx, edits).rewrite(func.body, "0")) if edits else func


def _annotations(statement: Any, tirx: Any) -> dict[Any, Any]:
    call = statement.value if isinstance(statement, tirx.Evaluate) else None
    holder = call if isinstance(call, tirx.Call) else statement
    return dict(getattr(holder, "annotations", None) or {})


def _restored(value: Any) -> Any:
    """The value of an annotation with new layouts, or the value itself if it holds none."""
    from tilelang.layout import Fragment, Layout

    if isinstance(value, Fragment):
        return _fragment(value)
    if isinstance(value, Layout):
        return _layout(value)
    if hasattr(value, "items"):
        entries = {key: _restored(inner) for key, inner in value.items()}
        return entries if any(entries[key] is not inner for key, inner in value.items()) else value
    return value


def _layout(layout: Any) -> Any:
    from tilelang import _ffi_api

    axes, new = _axes(layout)
    return _ffi_api.Layout(axes, [new(index) for index in layout.index])


def _fragment(fragment: Any) -> Any:
    from tilelang import _ffi_api
    from tvm import tirx

    partial = hasattr(fragment, "combine_size")
    if getattr(fragment, "thread_range", None) is not None:
        return _fully_replicated(fragment, partial)
    axes, new = _axes(fragment)
    replica = _axis(REPLICA, fragment.replicate_size)
    thread = tirx.stmt_functor.substitute(
        new(fragment.thread), {v: replica.var for v in _variables(fragment.thread) if v.name == REPLICA}
    )
    index = [new(one) for one in fragment.index]
    if partial:
        return _ffi_api.PartialFragment(axes, index, thread, replica, int(fragment.combine_size))
    return _ffi_api.Fragment(axes, index, thread, replica)


def _fully_replicated(fragment: Any, partial: bool) -> Any:
    """A fragment of which every thread holds all: of those bound to a range of threads, the one that has a constructor."""
    from tilelang import _ffi_api

    name = f"make_fully_replicated_{'partial' if partial else 'layout'}_fragment"
    new = getattr(_ffi_api, name)(list(fragment.get_input_shape()), fragment.replicate_size)
    if (str(new.index), str(new.thread)) != (str(fragment.index), str(fragment.thread)):
        raise LostLayout("a fragment that is bound to a range of threads cannot be loaded")
    return new


def _axes(layout: Any) -> tuple[list[Any], Any]:
    """New variables for the inputs of a layout, and the function that puts them into an expression of it."""
    from tvm import tirx

    axes = {f"_{chr(ord('i') + n)}": _axis(f"i{n}", extent) for n, extent in enumerate(layout.get_input_shape())}

    def new(expression: Any) -> Any:
        known = {v: axes[v.name].var for v in _variables(expression) if v.name in axes}
        return tirx.stmt_functor.substitute(expression, known)

    return list(axes.values()), new


def _axis(name: str, extent: Any) -> Any:
    from tvm import tirx
    from tvm.ir import Range

    return tirx.IterVar(Range(0, extent), tirx.Var(name, "int32"), 0)


def _variables(expression: Any) -> list[Any]:
    from tvm import tirx

    found: list[Any] = []
    tirx.stmt_functor.post_order_visit(
        tirx.Evaluate(expression), lambda node: found.append(node) if isinstance(node, tirx.Var) else None
    )
    return found
