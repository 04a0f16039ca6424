"""The layouts that the compiler infers for the fragments and shared buffers of a kernel, as tables of numbers."""

from __future__ import annotations

import importlib
import math
from typing import Any

from . import expressions

PASS = "tl.LayoutInference"
#: a layout with more elements, replicas counted, is told without its table
LIMIT = 1 << 15
REPLICA = "_rep"


class Stopped(Exception):
    """Ends a lowering that came as far as it was wanted."""


def infer(func: Any, context: Any, configs: dict[str, Any]) -> list[dict[str, Any]]:
    """Lower as far as layout inference, and read what it noted. Raises what the lowering raises before."""
    from tilelang import tvm

    watch = _instrument()
    lower = importlib.import_module("tilelang.engine.lower")  # `tilelang.engine.lower` is also a function of that name
    try:
        with tvm.transform.PassContext(opt_level=3, config=configs, instruments=[watch]), context.target:
            lower.lower_to_host_device_ir(func, context)
    except Exception:
        if watch.after is None:  # else it is the stop, which comes back as an error of the pass manager's
            raise
    return _noted(watch.after) if watch.after is not None else []


def _instrument() -> Any:
    from tvm.ir.instrument import pass_instrument

    @pass_instrument
    class Watch:
        after: Any = None

        def run_after_pass(self, module: Any, info: Any) -> None:
            if str(info.name) == PASS:
                self.after = module
                raise Stopped

    return Watch()


def _noted(module: Any) -> list[dict[str, Any]]:
    from tvm import tirx

    found: dict[str, dict[str, Any]] = {}

    def visit(node: Any) -> None:
        for buffer, layout in dict((getattr(node, "annotations", None) or {}).get("layout_map") or {}).items():
            told = {"buffer": str(buffer.name), "scope": str(buffer.scope())}
            found.setdefault(told["buffer"], told | _table(layout))

    for func in module.functions.values():
        if isinstance(func, tirx.PrimFunc):
            tirx.stmt_functor.post_order_visit(func.body, visit)
    return list(found.values())


def _table(layout: Any) -> dict[str, Any]:
    """The layout of the elements in row-major order: `index`, the place of each in its memory; of a fragment that in the registers of
    a thread, and `threads`, for every replica the thread of each element. `why` where there is no table."""
    import numpy as np
    from tilelang.layout import Fragment

    shape = [expressions.evaluate(extent, {}) for extent in layout.get_input_shape()]
    fragment = isinstance(layout, Fragment)
    replicas = int(layout.replicate_size) if fragment else 1
    told: dict[str, Any] = {"shape": shape, "fragment": fragment}
    if math.prod(shape) * replicas > LIMIT:
        return told | {"why": "too many elements"}
    grid = np.indices([*shape, replicas]).reshape(len(shape) + 1, -1, replicas)
    names = {f"_{chr(ord('i') + axis)}": grid[axis] for axis in range(len(shape))} | {REPLICA: grid[-1]}

    def value(expression: Any) -> Any:
        known = {v: names[v.name] for v in expressions.variables(expression) if v.name in names}
        return np.broadcast_to(expressions.evaluate(expression, known), grid[0].shape)

    try:
        place = np.zeros_like(grid[0])
        for extent, one in zip(layout.get_output_shape(), layout.index, strict=True):
            place = place * expressions.evaluate(extent, {}) + value(one)
        if fragment:
            bound = getattr(layout, "thread_range", None)
            first = expressions.evaluate(bound.min, {}) if bound is not None else 0
            told["threads"] = (value(layout.thread) + first).T.tolist()
    except (expressions.Unknown, ValueError, TypeError) as error:
        return told | {"why": f"it cannot be computed: {error}"}
    return told | {"index": place[:, 0].tolist()}
