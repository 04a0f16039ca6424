"""Atomic operations, and the updates of reducers: many lanes combine into one element, each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .access import Access, Base, BufferView
from .arithmetic import Closure, Value
from .dtypes import cast, is_float, numpy_dtype, plain, wrap
from .expressions import as_closure, kind, op_name, under
from .frame import Frame
from .memory import fits, lane
from .outcome import Unsupported
from .threads import ThreadCalls
from .tiles import Operand, collective

Runner = Callable[[Frame], None]

COMBINERS: dict[str, Any] = {
    "add": np.add,
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.bitwise_or,
    "bitor": np.bitwise_or,
    "bitand": np.bitwise_and,
    "bitxor": np.bitwise_xor,
}


class AtomicCalls(ThreadCalls):
    """Calls on pointers to elements."""

    def pointer(self, node: Any, offset: int = 0) -> Access:
        """The element that a pointer expression points at, or one `offset` elements behind it in the last dimension."""
        name = op_name(node) if kind(node) == "Call" else ""
        if name in ("tl.access_ptr", "tirx.address_of") and kind(node.args[0]) == "BufferLoad":
            load = node.args[0]
            indices = list(load.indices)
            if offset:
                indices[-1] = indices[-1] + offset
            return self.access(load.buffer, indices)
        if kind(node) == "BufferLoad":
            return self.access(node.buffer, node.indices)
        raise Unsupported("pointer of another form", self.place)

    def run_of(self, node: Any, count: int) -> Access:
        """`count` elements one after another from where a pointer points, as a new axis of lanes."""
        first = self.pointer(node)
        axis, last = self.depth, as_closure(self.last_index(node))
        bases = [*first.bases[:-1], lambda frame: last(frame) + lane(axis, count)]
        axes, coefficients = [*first.axes[:-1], None], [*first.coefficients[:-1], 1]
        return Access(first.buffer, bases, axes, coefficients, self.thread_axes, first.outside)

    def last_index(self, node: Any) -> Base:
        load = node if kind(node) == "BufferLoad" else node.args[0]
        return self.number(load.indices[-1])

    def async_copy(self, node: Any) -> tuple[Runner, BufferView]:
        """`ptx_cp_async(target, source, count[, predicate])` of every thread; what the predicate forbids becomes zero."""
        if kind(node.args[2]) != "IntImm":
            raise Unsupported("asynchronous copy of a number of elements that is not constant", self.place)
        count = int(node.args[2].value)
        target, source = self.run_of(node.args[0], count), self.run_of(node.args[1], count)
        if target.buffer.dtype != source.buffer.dtype:
            raise Unsupported("asynchronous copy between types", self.place)
        allowed = self.value(node.args[3]) if len(node.args) > 3 else None

        def run(frame: Frame) -> None:
            which = True if allowed is None else allowed(frame)
            if which is True:
                value = source.load(frame)
            elif which is False:
                value = target.buffer.dtype.type(0)
            else:
                value = np.where(which, under(frame, which, source.load), target.buffer.dtype.type(0))
            target.store(frame, value)

        return run, target.buffer

    def call(self, node: Any) -> Closure:
        """An atomic operation whose previous value is used."""
        parts = atomic_name(op_name(node))
        if parts is None:
            return super().call(node)
        operation, width, _ = parts
        if operation == "load":
            return self.pointer(node.args[0]).load
        if width != 1:
            raise Unsupported("previous values of a vector atomic", self.place)
        return self.atomic(operation, self.pointer(node.args[0]), self.value(node.args[1]), node.args[1])

    def atomic(self, operation: str, target: Access, value: Closure, node: Any) -> Closure:
        """The closure that does it and answers the value before. Outside of parallel loops every thread does it."""
        source, dtype = numpy_dtype(str(node.dtype)), target.buffer.dtype
        each_thread = self.thread_extents[: self.thread_axes][::-1] if self.depth == self.thread_axes else ()
        if operation == "store":

            def store(frame: Frame) -> Value:
                target.store(frame, cast(value(frame), source, dtype))
                return 0

            return store
        combine = COMBINERS[operation]
        return lambda frame: update(target, frame, cast(value(frame), source, dtype), combine, each_thread)

    def vector_atomic(self, node: Any, width: int, operation: str) -> Runner:
        steps: list[Closure] = []
        for offset in range(width):
            value = self.pointer(node.args[1], offset)
            target = self.pointer(node.args[0], offset)
            steps.append(self.atomic(operation, target, value.load, _Typed(node.args[1].args[0].dtype)))

        def run(frame: Frame) -> None:
            for step in steps:
                step(frame)

        return run


class _Typed:
    """Stands for an expression of which only the type is asked."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def atomic_name(name: str) -> tuple[str, int, bool] | None:
    """`tl.atomic_addx2_ret_elem_op` -> ("add", 2, True): operation, elements, whether it answers the value before."""
    if not (name.startswith("tl.atomic_") and name.endswith("_elem_op")):
        return None
    middle = name.removeprefix("tl.atomic_").removesuffix("_elem_op")
    returns = middle.endswith("_ret")
    middle = middle.removesuffix("_ret")
    operation, _, width = middle.partition("x") if middle not in ("max",) else (middle, "", "")
    return operation, int(width) if width else 1, returns


def update(
    target: Access, frame: Frame, value: Any, combine: Any, each: tuple[int, ...] = (), legal_tail: bool = False
) -> Value:
    """Combine the values of all active lanes into their elements, lanes one after another; the values before.

    `each` is a shape of lanes that all do it, even if nothing depends on them.
    """
    if frame.mask is None and not each:
        slot = target.slot(frame)
        if slot is not None and fits(np.shape(value), slot.shape):  # every lane has an element of its own
            frame.spend(slot.size)
            before = slot.copy()
            slot[...] = _number_over_nan(combine, slot.dtype)(slot, value)
            return before
    where, what, full, chosen = target.lanes_of(frame, value, each, legal_tail)
    values = frame.memory[target.buffer.memory].view(target.buffer.extent(frame), target.buffer.dtype)[0]
    frame.spend(np.size(what))
    before = np.zeros(full, values.dtype)
    if values.size and np.size(what):
        before[chosen] = combined(values, where, what, combine)
    return before if before.ndim else plain(before)


def combined(values: np.ndarray, where: tuple[np.ndarray, ...], what: np.ndarray, combine: Any) -> np.ndarray:
    """Combine into elements, and the value that each found."""
    if np.ndim(what) == 0:
        where, what = tuple(np.atleast_1d(index) for index in where), np.atleast_1d(what)
        return combined(values, where, what, combine).reshape(())
    shape = what.shape
    flat = np.ravel_multi_index(tuple(np.ravel(index) for index in where), values.shape)
    what = np.ravel(what)
    combine = _number_over_nan(combine, values.dtype)
    order = np.argsort(flat, kind="stable")
    before = np.empty(what.shape, values.dtype)
    left = order
    # in every round, each element is met by the first lane that still waits for it
    while left.size:
        sorted_flat = flat[left]
        first = np.ones(left.size, np.bool_)
        first[1:] = sorted_flat[1:] != sorted_flat[:-1]
        if first.sum() * 8 < left.size and _associative(combine, values.dtype):
            _in_runs(values, flat, what, before, left, first, combine)
            break
        now = left[first]
        position = np.unravel_index(flat[now], values.shape)
        before[now] = values[position]
        values[position] = combine(values[position], what[now]).astype(values.dtype, copy=False)
        left = left[~first]
    return before.reshape(shape)


def _number_over_nan(combine: Any, dtype: np.dtype) -> Any:
    """Of a number and NaN the device takes the number."""
    if not is_float(dtype):
        return combine
    return np.fmax if combine is np.maximum else np.fmin if combine is np.minimum else combine


def _associative(combine: Any, dtype: np.dtype) -> bool:
    """Whether the order does not matter for the result, up to rounding in fp32 and wider."""
    return combine is not np.add or dtype.kind in "iu" or dtype.itemsize >= 4


def _in_runs(
    values: np.ndarray,
    flat: np.ndarray,
    what: np.ndarray,
    before: np.ndarray,
    left: np.ndarray,
    first: np.ndarray,
    combine: Any,
) -> None:
    """Many lanes for few elements: one accumulation for each element."""
    starts = np.flatnonzero(first)
    for start, end in zip(starts, [*starts[1:], left.size], strict=True):
        lanes = left[start:end]
        position = np.unravel_index(flat[lanes[0]], values.shape)
        sums = combine.accumulate(np.concatenate([values[position].reshape(1), what[lanes]]).astype(values.dtype))
        before[lanes] = sums[:-1]
        values[position] = sums[-1]


# ------------------------------------------------------------------------------------------- tile operators


def tile_atomic(operation: str) -> Callable[..., tuple[Runner, list[Operand]]]:
    """`atomicadd(value or source region, target region)`."""
    combine = COMBINERS[operation]

    def build(compiler: Any, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
        target = Operand(compiler, args[1])
        region = kind(args[0]) == "Call" and op_name(args[0]) == "tl.region"
        source = Operand(compiler, args[0]) if region else None
        if source is not None and len(source.axes) != len(target.axes):
            raise Unsupported("atomic operation between regions of different rank", compiler.place)
        if source is not None and len(source.extents) != 0:
            compiler.axes(len(source.extents))
        constant = None if source is not None else compiler.value(args[0])
        from_type = source.buffer.dtype if source is not None else numpy_dtype(str(args[0].dtype))
        to_type = target.buffer.dtype

        def run(frame: Frame) -> None:
            (target if source is None else source).enter(frame)
            value = source.access.load(frame) if source is not None else constant(frame)  # type: ignore[misc]
            update(target.access, frame, cast(value, from_type, to_type), combine, legal_tail=True)

        operands = (target,) if source is None else (source, target)
        return collective(run, operands), [target]

    return build


def identity(operation: str, dtype: np.dtype) -> Any:
    """What changes nothing when it is combined."""
    if operation in ("max", "min"):
        if is_float(dtype):
            return dtype.type(float("-inf" if operation == "max" else "inf"))
        low, high, _ = wrap(dtype)
        return low if operation == "max" else high
    if operation == "bitand":
        return -1 if wrap(dtype)[0] < 0 else wrap(dtype)[1]
    return dtype.type(0)
