"""Launches: the grid of blocks, the threads of a block and what a block allocates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .expressions import kind, op_name
from .frame import Frame
from .loops import Loops
from .memory import lane
from .outcome import Unsupported
from .statements import LAUNCH_INDEX, allocate

Runner = Callable[[Frame], None]

LAUNCH_THREADS = "tl.launch_threads"


class Compiler(Loops):
    """Compiles a PrimFunc once; what is compiled runs on any frame of the right size."""

    def bound_loop(self, node: Any, path: str) -> Runner:
        """One launch: the loops over block indices, and blocks one after another."""
        loops, body = [], node
        while kind(body) == "For" and body.kind == node.kind:
            tag = str(body.thread_binding.thread_tag)
            if not tag.startswith("blockIdx"):
                raise Unsupported(f"loop bound to {tag}", self.place)
            loops.append((self.slot(body.loop_var), self.value(body.extent)))
            body, path = body.body, f"{path}.0"
        self._launch(body)
        run_block = self.statement(body, path)
        self.depth = self.thread_axes = 0

        def run(frame: Frame) -> None:
            sizes = [int(extent(frame)) for _, extent in loops]
            for block in np.ndindex(*reversed(sizes)):
                frame.block = tuple(reversed(block))
                for (slot, _), index in zip(loops, frame.block, strict=True):
                    frame.variables[slot] = index
                frame.mask, frame.gone, frame.left, frame.expanded = None, False, False, []
                frame.observing = frame.observer is not None and frame.observer.wants(frame.block)
                run_block(frame)
            frame.block, frame.observing = (), False

        return run

    def _launch(self, body: Any) -> None:
        """Make axes of the threads, if the program speaks of single threads."""
        from tvm import tirx

        threads: list[int] = []
        indices: list[Any] = []
        single = [False]

        def visit(node: Any) -> None:
            if isinstance(node, tirx.SBlock) and LAUNCH_THREADS in node.annotations:
                threads[:] = [int(extent) for extent in node.annotations[LAUNCH_THREADS]]
            elif isinstance(node, tirx.Bind) and kind(node.value) == "Call" and op_name(node.value) == LAUNCH_INDEX:
                indices.append(node.var)
            elif (isinstance(node, tirx.Var) and any(node.same_as(index) for index in indices)) or (
                isinstance(node, tirx.Call) and _of_threads(op_name(node))
            ):
                single[0] = True

        for _ in range(2):  # a binding is visited after what uses it
            tirx.stmt_functor.post_order_visit(body, visit)
        self.thread_extents = tuple(threads)
        while threads and threads[-1] == 1:
            threads.pop()
        self.thread_axes = self.depth = len(threads) if single[0] else 0
        self.axes(0)

    def _sblock(self, node: Any, path: str) -> Runner:
        if len(node.iter_vars) or len(node.match_buffers):
            raise Unsupported("block with iteration variables", self.place)
        for key in ("reducer_info", "reducer_info_v2"):
            for pointer, about in node.annotations.get(key, {}).items():
                self.reducers[pointer] = str(about["op"])
        allocations = [self.view(buffer) for buffer in node.alloc_buffers]
        body = self.statement(node.body, f"{path}.0")
        extents = self.thread_extents

        def run(frame: Frame) -> None:
            for axis, extent in enumerate(extents[:self_axes]):
                frame.extents[axis] = extent
            for view in allocations:
                allocate(frame, view)
            body(frame)

        self_axes = self.thread_axes
        return run

    def thread_index(self, node: Any) -> Runner:
        slot, axis = self.slot(node.var), int(node.value.args[0].value)
        if axis < self.thread_axes:
            extent = self.thread_extents[axis]
            self.lanes[node.var] = axis
            numbers = lane(axis, extent)
            return lambda frame: frame.variables.__setitem__(slot, numbers)
        return lambda frame: frame.variables.__setitem__(slot, 0)


def _of_threads(name: str) -> bool:
    """Operators that single threads execute."""
    short = name.rpartition(".")[2]
    return short.endswith("_elem_op") or short.startswith(
        (
            "shfl",
            "warp_reduce",
            "tvm_thread_allreduce",
            "get_lane",
            "get_warp",
            "any_sync",
            "all_sync",
            "ballot",
            "syncthreads_",
        )
    )
