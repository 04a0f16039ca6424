"""Launches: the grid of blocks, the threads of a block and what a block allocates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .arithmetic import Closure
from .expressions import kind, op_name
from .fibers import Barrier, Fiber, Meeting, Switch
from .frame import Frame
from .loops import Loops
from .memory import lane
from .outcome import Unsupported
from .roles import groups, has_barriers
from .statements import LAUNCH_INDEX, allocate

Runner = Callable[[Frame], None]

LAUNCH_THREADS = "tl.launch_threads"
#: threads of a block where the launch names none, as the CUDA pipeline of 0.1.15 fills them in
DEFAULT_THREADS = (128, 1, 1)
#: after so many blocks the work of all is foreseen
FORESIGHT = 15
AXES = {"x": 0, "y": 1, "z": 2}


def in_order(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The blocks of a launch in the order in which they are computed; `sizes` are the numbers of them along each axis, the outermost loop first."""
    return (tuple(reversed(block)) for block in np.ndindex(*reversed(sizes)))


class Compiler(Loops):
    """Compiles a PrimFunc once; what is compiled runs on any frame of the right size."""

    def __init__(self) -> None:
        super().__init__()
        #: masks of the roles of the current launch; one role or none is no matter
        self.roles: list[np.ndarray] = []

    def bound_loop(self, node: Any, path: str) -> Runner:
        """One launch: the loops over block indices, and blocks one after another."""
        if str(node.thread_binding.thread_tag).startswith("threadIdx"):
            return self._thread_loop(node, path)
        loops, body = [], node
        while kind(body) == "For" and body.kind == node.kind:
            tag = str(body.thread_binding.thread_tag)
            if not tag.startswith("blockIdx"):
                break
            loops.append((self.slot(body.loop_var), self.value(body.extent)))
            self.bind_range(body.loop_var, body.min, body.extent)
            body, path = body.body, f"{path}.0"
        self._launch(body)
        run_block = self.statement(body, path)
        self.depth = self.thread_axes = 0

        meets = any_call(body, "tl.sync_grid")

        def enter(frame: Frame, block: tuple[int, ...]) -> None:
            frame.block = block
            for (slot, _), index in zip(loops, block, strict=True):
                frame.variables[slot] = index
            frame.mask, frame.gone, frame.left, frame.expanded = None, False, False, []
            frame.observing = frame.observer is not None and frame.observer.wants(frame.block)

        def run(frame: Frame) -> None:
            sizes = [int(extent(frame)) for _, extent in loops]
            blocks = list(in_order(sizes))
            if meets:
                _side_by_side(frame, blocks, enter, run_block)
            else:
                before = frame.work
                if frame.only is not None:
                    blocks = [block for block in blocks if block == frame.only]
                for number, block in enumerate(blocks):
                    enter(frame, block)
                    run_block(frame)
                    if number == FORESIGHT and before == 0:
                        frame.foresee((number + 1) / len(blocks))
            frame.block, frame.observing = (), False

        return run

    def _thread_loop(self, node: Any, path: str) -> Runner:
        """`for tx in T.thread_binding(…)`: another name of the thread index."""
        slot = self.slot(node.loop_var)
        axis = AXES[str(node.thread_binding.thread_tag).rpartition(".")[2]]
        if axis >= self.thread_axes:
            body = self.statement(node.body, f"{path}.0")
            return lambda frame: (frame.variables.__setitem__(slot, 0), body(frame))[1]
        if kind(node.extent) != "IntImm" or int(node.extent.value) != self.thread_extents[axis]:
            raise Unsupported("loop over another number of threads", self.place)
        self.lanes[node.loop_var] = axis
        numbers = lane(axis, self.thread_extents[axis])
        body = self.statement(node.body, f"{path}.0")

        def run(frame: Frame) -> None:
            frame.variables[slot] = numbers
            body(frame)

        return run

    def _launch(self, body: Any) -> None:
        """Make axes of the threads, if the program speaks of single threads."""
        from tvm import tirx

        threads = list(DEFAULT_THREADS)
        indices: dict[Any, int] = {}
        single = [False]

        def visit(node: Any) -> None:
            if isinstance(node, tirx.SBlock) and LAUNCH_THREADS in node.annotations:
                threads[:] = [int(extent) for extent in node.annotations[LAUNCH_THREADS]]
            elif isinstance(node, tirx.Bind) and kind(node.value) == "Call" and op_name(node.value) == LAUNCH_INDEX:
                indices[node.var] = int(node.value.args[0].value)
            elif isinstance(node, tirx.For) and node.kind == tirx.ForKind.THREAD_BINDING:
                indices[node.loop_var] = AXES[str(node.thread_binding.thread_tag).rpartition(".")[2]]
            elif (isinstance(node, tirx.Var) and node in indices) or (
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
        self.roles, self.role_conditions = [], []
        if self.thread_axes and has_barriers(body):
            extents = self.thread_extents[: self.thread_axes]
            self.roles, self.role_conditions = groups(body, indices, extents)

    def _sblock(self, node: Any, path: str) -> Runner:
        if len(node.iter_vars) or len(node.match_buffers):
            raise Unsupported("block with iteration variables", self.place)
        for key in ("reducer_info", "reducer_info_v2"):
            for pointer, about in node.annotations.get(key, {}).items():
                self.reducers[pointer] = str(about["op"])
        for pointer, value in node.annotations.get("safe_value_map", {}).items():
            self.safe_values[self.memory(pointer)] = self._constant(value)
        allocations = [self.view(buffer) for buffer in node.alloc_buffers]
        body = self.statement(node.body, f"{path}.0")
        extents = self.thread_extents

        axes, roles = self.thread_axes, self.roles
        barriers = {
            self.memory(pointer): [int(count) for count in counts]
            for pointer, counts in node.annotations.get("barrier_init", {}).items()
        }

        def run(frame: Frame) -> None:
            for axis, extent in enumerate(extents[:axes]):
                frame.extents[axis] = extent
            for view in allocations:
                allocate(frame, view)
            if not barriers:
                body(frame)
                return
            frame.barriers = {
                (memory, at): Barrier(count) for memory, counts in barriers.items() for at, count in enumerate(counts)
            }
            _in_roles(frame, roles, body)

        return run

    def _constant(self, value: Any) -> Closure:
        return (lambda frame: value) if isinstance(value, (int, float)) else self.value(value)

    def thread_index(self, node: Any) -> Runner:
        slot, axis = self.slot(node.var), int(node.value.args[0].value)
        if axis < self.thread_axes:
            extent = self.thread_extents[axis]
            self.lanes[node.var] = axis
            numbers = lane(axis, extent)
            return lambda frame: frame.variables.__setitem__(slot, numbers)
        return lambda frame: frame.variables.__setitem__(slot, 0)


def _in_roles(frame: Frame, roles: list[np.ndarray], body: Runner) -> None:
    """Run the body once for each role, with the threads of that role active."""
    parts = [frame.fork(own_memory=False) for _ in roles or [None]]

    def work(part: Frame, role: np.ndarray | None) -> Callable[[Fiber], None]:
        def run(fiber: Fiber) -> None:
            part.fiber = fiber
            part.mask = None if role is None or role.all() else role
            body(part)

        return run

    Switch().run([work(part, role) for part, role in zip(parts, roles or [None], strict=True)])
    for part in parts:
        frame.absorb(part)


def _side_by_side(
    frame: Frame, blocks: list[tuple[int, ...]], enter: Callable[[Frame, tuple[int, ...]], None], body: Runner
) -> None:
    """Run all blocks at once, because they meet."""
    parts = [frame.fork(own_memory=True) for _ in blocks]
    meeting = Meeting()

    def work(part: Frame, block: tuple[int, ...]) -> Callable[[Fiber], None]:
        def run(fiber: Fiber) -> None:
            part.fiber, part.barriers = fiber, {"grid": (meeting, len(blocks))}
            enter(part, block)
            body(part)

        return run

    Switch().run([work(part, block) for part, block in zip(parts, blocks, strict=True)])
    for part in parts:
        frame.absorb(part)


def any_call(body: Any, name: str) -> bool:
    from tvm import tirx

    found = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Call) and op_name(node) == name:
            found.append(True)

    tirx.stmt_functor.post_order_visit(body, visit)
    return bool(found)


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
