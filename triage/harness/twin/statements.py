"""Statements of TIR as closures of a frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import places
from . import tiles
from .access import BufferView
from .arithmetic import Closure
from .atomics import COMBINERS, AtomicCalls, atomic_name, identity, tile_atomic, update
from .expressions import UnknownVariable, as_scalar, kind, op_name
from .fibers import Barrier, Meeting
from .frame import Frame, Statement
from .memory import Storage
from .outcome import Unsupported

Runner = Callable[[Frame], None]

PRIVATE = tiles.PRIVATE
LAUNCH_INDEX = "tl.launch_thread_idx"
#: attributes of statements that only advise the compiler
ADVICE = frozenset(
    {
        "threadblock_swizzle_pattern",
        "pragma_unroll_explicit",
        "pragma_import_c",
        "tl.assume",
        "assume",
        "storage_alignment",
        "warp_specialize",
    }
)
#: calls that order threads or advise the compiler: every statement is done by all lanes before the next one begins
NOTHING = frozenset(
    {
        "tl.sync_warp", "tl.set_max_nreg", "tl.no_set_max_nreg", "tl.fence_proxy_async",
        "tl.pdl_trigger", "tl.pdl_sync", "tl.ptx_fence_barrier_init", "tirx.ptx_wait_group", "tirx.ptx_commit_group",
        "tirx.tvm_thread_invariant", "tl.tma_store_arrive", "tl.tma_store_wait",
        "tl.mbarrier_expect_tx",
        "tl.warpgroup_arrive",
        "tl.warpgroup_commit_batch",
        "tl.warpgroup_wait",
        "tl.wait_wgmma",
    }
)  # fmt: skip
OPERATORS = tiles.OPERATORS | {f"tl.tileop.atomic{name}": tile_atomic(name) for name in ("add", "max", "min")}
PRINTS = ("debug_print_var", "debug_print_buffer_value", "debug_print_msg")


class Statements(AtomicCalls):
    """Compiles statements that are neither loops nor launches."""

    def __init__(self) -> None:
        super().__init__()
        #: the largest number of axes at any statement
        self.deepest = 0
        #: slots of the loops around a statement that run one iteration after another
        self.iterations: tuple[int, ...] = ()
        #: pointers of reducers, and the operation of each
        self.reducers: dict[Any, str] = {}
        #: conditions that part the threads of a block into roles, and whether a statement belongs to one role
        self.role_conditions: list[Any] = []
        self.in_role = False

    def axes(self, count: int) -> None:
        """Say that `count` axes are needed beyond those around."""
        self.deepest = max(self.deepest, self.depth + count)

    # ---------------------------------------------------------------------------------------- statements

    def statement(self, node: Any, path: str) -> Runner:
        name = kind(node)
        if name == "SeqStmt":
            return self.sequence([self.statement(child, f"{path}.{n}") for n, child in enumerate(node.seq)])
        if name == "SBlockRealize":
            return self.statement(node.block, f"{path}.0")
        self.place = places.of_statement(node) or self.place
        compile_one = getattr(self, f"_{name.lower()}", None)
        if compile_one is None:
            raise Unsupported(f"statement {name}", self.place)
        return compile_one(node, path)  # type: ignore[no-any-return]

    def sequence(self, runners: list[Runner]) -> Runner:
        raise NotImplementedError

    def _leaf(self, path: str, run: Runner, writes: list[BufferView]) -> Runner:
        """A statement that does something, seen by the observer."""
        about = Statement(path, self.place)
        slots = self.iterations

        def execute(frame: Frame) -> None:
            frame.at = about
            frame.statements += 1
            run(frame)
            if frame.observing and frame.observer is not None:
                iteration = tuple(frame.variables[slot] for slot in slots)
                for view in writes:
                    read = _reader(frame, view)
                    frame.observer.after(path, about.place, view.name, frame.block, iteration, read)

        return execute

    # -------------------------------------------------------------------------------------------- leaves

    def _bufferstore(self, node: Any, path: str) -> Runner:
        contribution = self._contribution(node)
        if contribution is not None:
            return self._combine_into(node.buffer, node.indices, self.value(contribution), path)
        access, value = self.access(node.buffer, node.indices), self.value(node.value)

        def run(frame: Frame) -> None:
            access.store(frame, value(frame))

        return self._leaf(path, run, [access.buffer])

    def _bind(self, node: Any, path: str) -> Runner:
        value = node.value
        if kind(value) == "Call" and op_name(value) == LAUNCH_INDEX:
            return self.thread_index(node)
        try:
            closure, slot = self.value(value), self.slot(node.var)
        except UnknownVariable:
            self.deferred[node.var] = value
            return nothing
        about = Statement(path, self.place)

        def run(frame: Frame) -> None:
            frame.at = about
            result = closure(frame)
            if isinstance(result, np.ndarray):
                result = np.array(result)  # a slice would change with the memory
            frame.variables[slot] = result

        return run

    def thread_index(self, node: Any) -> Runner:
        raise NotImplementedError

    def _evaluate(self, node: Any, path: str) -> Runner:
        call = node.value
        if kind(call) != "Call":
            return nothing
        name = op_name(call)
        if name in NOTHING:
            return nothing
        if name in OPERATORS:
            run, targets = OPERATORS[name](self, list(call.args), annotations=call.annotations)
            for target in targets:
                self.axes(len(target.extents))
            if self.role_conditions and not self.in_role:
                run = self.together(run)
            return self._leaf(path, run, [target.buffer for target in targets])
        atomic = atomic_name(name)
        if atomic is not None:
            return self._atomic(call, path, *atomic)
        special = getattr(self, f"_do_{name.rpartition('.')[2]}", None)
        if special is not None:
            return special(call, path)  # type: ignore[no-any-return]
        value = self.value(call)
        return self._leaf(path, lambda frame: void(value(frame)), [])

    # ------------------------------------------------------------------------------------------ barriers

    def together(self, run: Runner) -> Runner:
        """What all roles run together: they meet, and the last to come does it for all."""
        meeting = object()

        def once(frame: Frame) -> None:
            before = frame.mask

            def do() -> None:
                frame.mask = None
                run(frame)
                frame.mask = before

            self_meeting = frame.barriers.setdefault(meeting, Meeting())
            fiber = frame.fiber
            if fiber is None:
                run(frame)
            else:
                self_meeting.join(fiber, len(fiber.switch.fibers), do)

        return once

    def _barrier(self, node: Any) -> Callable[[Frame], Barrier]:
        view = self.view(node.buffer)
        indices = [self.value(index) for index in node.indices]
        if len(indices) != 1:
            raise Unsupported("barriers of more than one dimension", self.place)
        (index,) = indices

        def find(frame: Frame) -> Barrier:
            barrier = frame.barriers.get((view.memory, as_scalar(index(frame))))
            if barrier is None:
                raise Unsupported("barrier without a count", frame.at.place)
            return barrier  # type: ignore[no-any-return]

        return find

    def _do_mbarrier_wait_parity(self, call: Any, path: str) -> Runner:
        find, parity = self._barrier(call.args[0]), self.value(call.args[1])

        def run(frame: Frame) -> None:
            barrier, wanted = find(frame), int(as_scalar(parity(frame)))
            if frame.fiber is None:
                raise Unsupported("wait outside of a role", frame.at.place)
            frame.fiber.wait(lambda: barrier.passed(wanted))

        return self._leaf(path, run, [])

    def _do_ptx_arrive_barrier(self, call: Any, path: str) -> Runner:
        find, threads = self._barrier(call.args[0]), self.thread_extents

        def run(frame: Frame) -> None:
            find(frame).arrive(_active(frame, threads))

        return self._leaf(path, run, [])

    _do_ptx_arrive_barrier_expect_tx = _do_ptx_arrive_barrier
    _do_ptx_cp_async_barrier_noinc = _do_ptx_arrive_barrier

    def _do_tvm_storage_sync(self, call: Any, path: str) -> Runner:
        """A barrier of all threads of one role is nothing here; one with a name brings threads of several together."""
        if len(call.args) < 3 or not self.role_conditions:
            return nothing
        name, count, threads = self.value(call.args[1]), self.value(call.args[2]), self.thread_extents

        def run(frame: Frame) -> None:
            meeting = frame.barriers.setdefault(("named", int(name(frame))), Meeting())
            if frame.fiber is not None:
                meeting.join(frame.fiber, int(count(frame)), weight=_active(frame, threads))

        return self._leaf(path, run, [])

    def _do_sync_grid(self, call: Any, path: str) -> Runner:
        def run(frame: Frame) -> None:
            if frame.fiber is None or "grid" not in frame.barriers:
                raise Unsupported("barrier of the grid inside of roles", frame.at.place)
            meeting, blocks = frame.barriers["grid"]
            meeting.join(frame.fiber, blocks)

        return self._leaf(path, run, [])

    def _atomic(self, call: Any, path: str, operation: str, width: int, returns: bool) -> Runner:
        target = self.pointer(call.args[0])
        run = self.vector_atomic(call, width, operation) if width > 1 else self.call(call)
        return self._leaf(path, lambda frame: void(run(frame)), [target.buffer])

    def _do_ptx_cp_async(self, call: Any, path: str) -> Runner:
        run, target = self.async_copy(call)
        self.axes(1)
        return self._leaf(path, run, [target])

    def _do_tvm_thread_allreduce(self, call: Any, path: str) -> Runner:
        run = self.allreduce(call)
        return self._leaf(path, run, [self.allreduce_target])

    def _do_call_extern(self, call: Any, path: str) -> Runner:
        name = str(call.args[0].value)
        if name in PRINTS:
            return nothing
        value = self._call_call_extern(call)
        return self._leaf(path, lambda frame: void(value(frame)), [])

    def _do_device_assert_with_msg(self, call: Any, path: str) -> Runner:
        return self._assertion(self.value(call.args[0]), str(getattr(call.args[1], "value", "")), path)

    def _do_device_assert(self, call: Any, path: str) -> Runner:
        return self._assertion(self.value(call.args[0]), "", path)

    def _assertstmt(self, node: Any, path: str) -> Runner:
        return self._assertion(self.value(node.condition), str(getattr(node, "message", "")), path)

    def _assertion(self, condition: Closure, text: str, path: str) -> Runner:
        """An assertion of the kernel. A device would stop here; the twin goes on, so that the rest is seen, too."""

        def run(frame: Frame) -> None:
            fails = ~np.asarray(condition(frame), np.bool_)
            fails = fails if frame.mask is None else fails & frame.mask
            if fails.any():
                frame.record("assertion", "", (), (), int(fails.sum()), text=text.strip())

        return self._leaf(path, run, [])

    # -------------------------------------------------------------------------------------------- branches

    def _ifthenelse(self, node: Any, path: str) -> Runner:
        about = Statement(path, self.place)
        condition = self.value(node.condition)
        outside, self.in_role = (
            self.in_role,
            self.in_role or any(node.condition.same_as(c) for c in self.role_conditions),
        )
        then = self.statement(node.then_case, f"{path}.0")
        other = self.statement(node.else_case, f"{path}.1") if node.else_case is not None else None
        self.in_role = outside

        def run(frame: Frame) -> None:
            frame.at = about
            which = condition(frame)
            if not isinstance(which, np.ndarray):
                if which:
                    then(frame)
                elif other is not None:
                    other(frame)
                return
            before = frame.mask
            for branch, lanes in ((then, which), (other, ~which)):
                if branch is None:
                    continue
                active = lanes if before is None else lanes & before
                if active.any():
                    frame.mask = None if before is None and active.all() else active
                    branch(frame)
            frame.mask = before

        return run

    def _attrstmt(self, node: Any, path: str) -> Runner:
        key = str(node.attr_key)
        if key == "reduce_scope":
            self.reducer = node.node
        elif key not in ADVICE and not key.startswith(("pragma_", "layout", "tl.pipeline")):
            raise Unsupported(f"attribute {key}", self.place)
        return self.statement(node.body, f"{path}.0")

    # ------------------------------------------------------------------------------------------ reducers

    def _operation(self, buffer: Any) -> str | None:
        return self.reducers.get(buffer.data)

    def _do_reducer_init(self, call: Any, path: str) -> Runner:
        target = tiles.Operand(self, call.args[0])
        self.axes(len(target.extents))
        operation = self._operation(tiles.parts(call.args[0])[0])
        if operation is None:
            raise Unsupported("reducer without an operation", self.place)
        start = self.value(call.args[1]) if len(call.args) > 1 else None
        nothing = identity(operation, target.buffer.dtype)

        def run(frame: Frame) -> None:
            target.enter(frame)
            target.access.store(frame, nothing if start is None else start(frame))

        return self._leaf(path, tiles.collective(run, (target,)), [target.buffer])

    def _do_reducer_update(self, call: Any, path: str) -> Runner:
        load, value = call.args[0], self.value(call.args[1])
        return self._combine_into(load.buffer, load.indices, value, path)

    def _combine_into(self, buffer: Any, indices: Any, value: Closure, path: str) -> Runner:
        operation = self._operation(buffer)
        if operation is None:
            raise Unsupported("reducer without an operation", self.place)
        access, combine = self.access(buffer, indices), COMBINERS[operation]
        return self._leaf(path, lambda frame: void(update(access, frame, value(frame), combine)), [access.buffer])

    def _contribution(self, node: Any) -> Any:
        """What `acc[i] = acc[i] + x` adds, where `acc` is a reducer of which every thread has a part; else None."""
        operation = self._operation(node.buffer)
        names = {"sum": "Add", "max": "Max", "min": "Min"}
        if operation is None or kind(node.value) != names.get(operation):
            return None
        from tvm.ir import structural_equal

        for own, other in ((node.value.a, node.value.b), (node.value.b, node.value.a)):
            if (
                kind(own) == "BufferLoad"
                and own.buffer.same_as(node.buffer)
                and structural_equal(own.indices, node.indices)
            ):
                return other
        return None

    # ---------------------------------------------------------------------------------------- allocations

    def _allocbuffer(self, node: Any, path: str) -> Runner:
        view = self.view(node.buffer)
        return lambda frame: allocate(frame, view)

    def _declbuffer(self, node: Any, path: str) -> Runner:
        self.view(node.buffer)
        return nothing


def allocate(frame: Frame, view: BufferView) -> None:
    private = view.scope in PRIVATE
    frame.memory[view.memory] = Storage.fresh(view.name, view.scope, view.extent(frame), view.dtype, private)


def _reader(frame: Frame, view: BufferView) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        return np.array(frame.memory[view.memory].view(view.extent(frame), view.dtype)[0])

    return read


def _active(frame: Frame, threads: tuple[int, ...]) -> int:
    """How many threads are active."""
    if frame.mask is None:
        return math.prod(threads)
    return (
        int(frame.mask.sum()) * math.prod(threads) // math.prod(frame.extents[axis] for axis in range(_axes(threads)))
    )


def _axes(threads: tuple[int, ...]) -> int:
    """The number of axes of threads: those behind the last one larger than 1 are none."""
    return max((axis + 1 for axis, extent in enumerate(threads) if extent != 1), default=0)


def nothing(frame: Frame) -> None:
    return None


def void(_: Any) -> None:
    return None
