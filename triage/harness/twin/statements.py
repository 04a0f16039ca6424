"""Statements of TIR as closures of a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import places_of, tiles
from .access import Access, BufferView
from .arithmetic import Closure
from .atomics import COMBINERS, AtomicCalls, atomic_name, identity, tile_atomic, update
from .dtypes import plain
from .expressions import UnknownVariable, as_scalar, kind, op_name
from .frame import Frame, Statement
from .memory import Storage, lane
from .outcome import Unsupported

Runner = Callable[[Frame], None]

PRIVATE = tiles.PRIVATE
LAUNCH_THREADS = "tl.launch_threads"
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
    }
)
#: calls that order threads or advise the compiler: every statement is done by all lanes before the next one begins
NOTHING = frozenset(
    {
        "tirx.tvm_storage_sync", "tl.sync_warp", "tl.set_max_nreg", "tl.no_set_max_nreg", "tl.fence_proxy_async",
        "tl.pdl_trigger", "tl.pdl_sync", "tl.ptx_fence_barrier_init", "tirx.ptx_wait_group", "tirx.ptx_commit_group",
        "tirx.tvm_thread_invariant", "tl.tma_store_arrive", "tl.tma_store_wait",
    }
)  # fmt: skip
OPERATORS = tiles.OPERATORS | {f"tl.tileop.atomic{name}": tile_atomic(name) for name in ("add", "max", "min")}
PRINTS = ("debug_print_var", "debug_print_buffer_value", "debug_print_msg")


class Compiler(AtomicCalls):
    """Compiles a PrimFunc once; what is compiled runs on any frame of the right size."""

    def __init__(self) -> None:
        super().__init__()
        self.deepest = 0
        #: slots of the loops around a statement that run one iteration after another
        self.iterations: tuple[int, ...] = ()
        self.has_break = False
        #: pointers of reducers, and the operation of each
        self.reducers: dict[Any, str] = {}

    def axes(self, count: int) -> None:
        self.deepest = max(self.deepest, self.depth + count)

    # ---------------------------------------------------------------------------------------- statements

    def statement(self, node: Any, path: str) -> Runner:
        name = kind(node)
        if name == "SeqStmt":
            return self._sequence([self.statement(child, f"{path}.{n}") for n, child in enumerate(node.seq)])
        if name == "SBlockRealize":
            return self.statement(node.block, f"{path}.0")
        self.place = places_of.statement(node) or self.place
        compile_one = getattr(self, f"_{name.lower()}", None)
        if compile_one is None:
            raise Unsupported(f"statement {name}", self.place)
        return compile_one(node, path)  # type: ignore[no-any-return]

    def _sequence(self, runners: list[Runner]) -> Runner:
        if len(runners) == 1:
            return runners[0]
        steps = tuple(runners)
        if not self.has_break:

            def plain_sequence(frame: Frame) -> None:
                for step in steps:
                    step(frame)

            return plain_sequence

        def sequence(frame: Frame) -> None:
            before = frame.mask
            for step in steps:
                step(frame)
                if frame.broken is True:
                    break
                if frame.broken is not False:
                    left = ~frame.broken if before is None else before & ~frame.broken
                    if not left.any():
                        break
                    frame.mask = left
            frame.mask = before

        return sequence

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
            return self._thread_index(node)
        try:
            closure, slot = self.value(value), self.slot(node.var)
        except UnknownVariable:
            self.deferred[node.var] = value
            return _nothing
        about = Statement(path, self.place)

        def run(frame: Frame) -> None:
            frame.at = about
            result = closure(frame)
            if isinstance(result, np.ndarray):
                result = np.array(result)  # a slice would change with the memory
            frame.variables[slot] = result

        return run

    def _thread_index(self, node: Any) -> Runner:
        slot, axis = self.slot(node.var), int(node.value.args[0].value)
        if axis < self.thread_axes:
            extent = self.thread_extents[axis]
            self.lanes[node.var] = axis
            numbers = lane(axis, extent)
            return lambda frame: frame.variables.__setitem__(slot, numbers)
        return lambda frame: frame.variables.__setitem__(slot, 0)

    def _evaluate(self, node: Any, path: str) -> Runner:
        call = node.value
        if kind(call) != "Call":
            return _nothing
        name = op_name(call)
        if name in NOTHING:
            return _nothing
        if name in OPERATORS:
            run, targets = OPERATORS[name](self, list(call.args), annotations=call.annotations)
            for target in targets:
                self.axes(len(target.extents))
            return self._leaf(path, run, [target.buffer for target in targets])
        atomic = atomic_name(name)
        if atomic is not None:
            return self._atomic(call, path, *atomic)
        special = getattr(self, f"_do_{name.rpartition('.')[2]}", None)
        if special is not None:
            return special(call, path)  # type: ignore[no-any-return]
        value = self.value(call)
        return self._leaf(path, lambda frame: void(value(frame)), [])

    def _atomic(self, call: Any, path: str, operation: str, width: int, returns: bool) -> Runner:
        target = self.pointer(call.args[0])
        run = self.vector_atomic(call, width, operation) if width > 1 else self.call(call)
        return self._leaf(path, lambda frame: void(run(frame)), [target.buffer])

    def _do_tvm_thread_allreduce(self, call: Any, path: str) -> Runner:
        run = self.allreduce(call)
        return self._leaf(path, run, [self.allreduce_target])

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

    def _do_loop_break(self, call: Any, path: str) -> Runner:
        self.has_break = True

        def run(frame: Frame) -> None:
            frame.broken = (
                True if frame.mask is None else frame.mask if frame.broken is False else frame.broken | frame.mask
            )

        return run

    def _do_call_extern(self, call: Any, path: str) -> Runner:
        name = str(call.args[0].value)
        if name in PRINTS:
            return _nothing
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
        then = self.statement(node.then_case, f"{path}.0")
        other = self.statement(node.else_case, f"{path}.1") if node.else_case is not None else None

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

    # ----------------------------------------------------------------------------------------------- loops

    def _for(self, node: Any, path: str) -> Runner:
        from tvm import tirx

        kinds = tirx.ForKind
        if node.kind == kinds.THREAD_BINDING:
            return self._grid(node, path)
        if node.kind == kinds.PARALLEL:
            return self._lanes_of(node, path)
        if node.kind == kinds.VECTORIZED and not self._private_sums(node):
            return self._lanes_of(node, path)
        return self._serial(node, path)

    def _private_sums(self, loop: Any) -> bool:
        """Whether iterations of a vectorized loop meet in a register, so that they must follow one another."""
        from tvm import tirx

        found = []

        def visit(node: Any) -> None:
            if isinstance(node, tirx.BufferStore) and str(node.buffer.scope()) in PRIVATE:
                found.append(not any(_mentions(index, loop.loop_var) for index in node.indices))

        tirx.stmt_functor.post_order_visit(loop.body, visit)
        return any(found)

    def _lanes_of(self, node: Any, path: str) -> Runner:
        """A nest of parallel loops: each is an axis, the outermost of the nest the first dimension."""
        nest = [node]
        while (
            kind(nest[-1].body) == "For" and nest[-1].body.kind == node.kind and not self._depends(nest, nest[-1].body)
        ):
            nest.append(nest[-1].body)
        base = self.depth
        loops = []
        for rank, loop in enumerate(nest):
            axis = base + len(nest) - 1 - rank
            start, extent, slot = self.number(loop.min), self.number(loop.extent), self.slot(loop.loop_var)
            loops.append((axis, start, extent, slot))
            if type(start) is int and start == 0:
                self.lanes[loop.loop_var] = axis
        self.axes(len(nest))
        self.depth += len(nest)
        self._deeper()
        inner = nest[-1].body
        breaks, self.has_break = self.has_break, False
        body = self.statement(inner, path + ".0" * len(nest))
        if self.has_break:
            raise Unsupported("break out of a parallel loop", self.place)
        self.has_break = breaks
        self.depth = base
        thread_axes = self.thread_axes

        def run(frame: Frame) -> None:
            for axis, start, extent, slot in loops:
                count = extent if type(extent) is int else as_scalar(extent(frame))  # type: ignore[operator]
                if isinstance(count, np.ndarray):
                    raise Unsupported("parallel loop of a size that differs between threads", frame.at.place)
                if count <= 0:
                    return
                frame.extents[axis] = int(count)
                first = start if type(start) is int else start(frame)  # type: ignore[operator]
                numbers = lane(axis, int(count))
                frame.variables[slot] = numbers if type(first) is int and first == 0 else first + numbers
            body(frame)
            if frame.expanded:
                for storage in frame.expanded:
                    storage.collapse(base)
                frame.expanded = [storage for storage in frame.expanded if len(storage.lanes) > thread_axes]

        return run

    def _deeper(self) -> None:
        self.deepest = max(self.deepest, self.depth)

    @staticmethod
    def _depends(nest: list[Any], loop: Any) -> bool:
        return any(_mentions(bound, outer.loop_var) for outer in nest for bound in (loop.min, loop.extent))

    def _serial(self, node: Any, path: str) -> Runner:
        start, extent, slot = self.value(node.min), self.value(node.extent), self.slot(node.loop_var)
        step = int(node.step.value) if getattr(node, "step", None) is not None else 1
        outer, self.iterations = self.iterations, (*self.iterations, slot)
        breaks, self.has_break = self.has_break, False
        body = self.statement(node.body, f"{path}.0")
        breaks_out, self.has_break = self.has_break, breaks
        if breaks_out:
            # the sequences inside were compiled before the break was met
            self.has_break = True
            body = self.statement(node.body, f"{path}.0")
            self.has_break = breaks
        self.iterations = outer
        about = Statement(path, self.place)

        def run(frame: Frame) -> None:
            frame.at = about
            first, count = as_scalar(start(frame)), as_scalar(extent(frame))
            before, broken = frame.mask, frame.broken
            frame.broken = False
            if isinstance(count, np.ndarray):
                _masked_loop(frame, first, count, step, slot, body)
            else:
                for value in range(0, count, step):
                    frame.variables[slot] = first + value
                    body(frame)
                    if frame.broken is not False and not _stay(frame, before):
                        break
            frame.mask, frame.broken = before, broken

        return run

    def _while(self, node: Any, path: str) -> Runner:
        about = Statement(path, self.place)
        condition = self.value(node.condition)
        breaks, self.has_break = self.has_break, False
        body = self.statement(node.body, f"{path}.0")
        if self.has_break:
            body = self.statement(node.body, f"{path}.0")
        self.has_break = breaks

        def run(frame: Frame) -> None:
            before, broken = frame.mask, frame.broken
            frame.broken = False
            while True:
                frame.at = about
                frame.spend(1)
                holds = as_scalar(condition(frame))
                if isinstance(holds, np.ndarray):
                    active = holds if frame.mask is None else holds & frame.mask
                    if not active.any():
                        break
                    frame.mask = active
                elif not holds:
                    break
                body(frame)
                if frame.broken is not False and not _stay(frame, frame.mask):
                    break
            frame.mask, frame.broken = before, broken

        return run

    # ----------------------------------------------------------------------------------- launches and blocks

    def _grid(self, node: Any, path: str) -> Runner:
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
                frame.mask, frame.broken, frame.expanded = None, False, []
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
        self._deeper()

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

    def _allocbuffer(self, node: Any, path: str) -> Runner:
        view = self.view(node.buffer)
        return lambda frame: allocate(frame, view)

    def _declbuffer(self, node: Any, path: str) -> Runner:
        self.view(node.buffer)
        return _nothing


def allocate(frame: Frame, view: BufferView) -> None:
    private = view.scope in PRIVATE
    frame.memory[view.memory] = Storage.fresh(view.name, view.scope, view.extent(frame), view.dtype, private)


def _of_threads(name: str) -> bool:
    """Operators that single threads execute."""
    short = name.rpartition(".")[2]
    return short.endswith("_elem_op") or short.startswith(
        ("shfl", "warp_reduce", "tvm_thread_allreduce", "get_lane", "get_warp")
    )


def _masked_loop(frame: Frame, first: Any, count: np.ndarray, step: int, slot: int, body: Runner) -> None:
    before = frame.mask
    for value in range(0, int(count.max(initial=0)), step):
        active = value < count if before is None else (value < count) & before
        if frame.broken is not False:
            active = active & ~np.asarray(frame.broken)
        if not active.any():
            break
        frame.mask = active
        frame.variables[slot] = first + value
        body(frame)


def _stay(frame: Frame, before: np.ndarray | None) -> bool:
    """After a break: whether lanes are left in the loop; masks those that left."""
    if frame.broken is True:
        return False
    left = ~np.asarray(frame.broken) if before is None else before & ~np.asarray(frame.broken)
    frame.mask = left
    return bool(left.any())


def _mentions(node: Any, variable: Any) -> bool:
    from tvm import tirx

    found = []

    def visit(inner: Any) -> None:
        if isinstance(inner, tirx.Var) and inner.same_as(variable):
            found.append(True)

    tirx.stmt_functor.post_order_visit(node, visit)
    return bool(found)


def _reader(frame: Frame, view: BufferView) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        return np.array(frame.memory[view.memory].view(view.extent(frame), view.dtype)[0])

    return read


def _nothing(frame: Frame) -> None:
    return None


def void(_: Any) -> None:
    return None


__all__ = ["Access", "Compiler", "plain"]
