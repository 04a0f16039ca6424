"""What threads of a warp or a block exchange with each other, and who they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import arithmetic
from .arithmetic import Closure, Value
from .dtypes import numpy_dtype
from .expressions import kind
from .frame import Frame
from .intrinsics import Calls
from .outcome import Unsupported

WARP = 32
WARP_GROUP = 128

#: the combiner of `tvm_thread_allreduce` by the node that is its result
COMBINERS = {"Add": np.add, "Max": np.maximum, "Min": np.minimum, "Mul": np.multiply}


class Block:
    """The threads of a block. `extents` are those of the thread axes; none where no thread is spoken of."""

    def __init__(self, extents: tuple[int, ...]) -> None:
        self.extents = extents
        self.count = math.prod(extents)

    def spread(self, value: Value, dtype: np.dtype) -> np.ndarray:
        """A value with one element for each thread; the last dimension counts the threads of the block."""
        array = arithmetic.typed(value, dtype)
        axes = len(self.extents)
        array = array.reshape((1,) * max(0, axes - array.ndim) + array.shape)
        outer = array.shape[: array.ndim - axes]
        return np.broadcast_to(array, outer + self.extents[::-1]).reshape((*outer, -1))

    def folded(self, array: np.ndarray) -> np.ndarray:
        """The reverse of `spread`."""
        return array.reshape(array.shape[:-1] + self.extents[::-1])


class ThreadCalls(Calls):
    """Calls whose answer depends on the other threads. Inactive threads take part with what they last had."""

    #: the combiner around the current `tvm_thread_allreduce`
    reducer: Any = None

    def block(self) -> Block:
        return Block(self.thread_extents[: self.thread_axes])

    def _call_get_lane_idx(self, node: Any) -> Closure:
        return self._thread_numbers(None, WARP)

    def _call_get_warp_idx(self, node: Any) -> Closure:
        return self._thread_numbers(WARP, None)

    _call_get_warp_idx_sync = _call_get_warp_idx

    def _call_get_warp_group_idx(self, node: Any) -> Closure:
        return self._thread_numbers(WARP_GROUP, None)

    def _thread_numbers(self, divide: int | None, remainder: int | None) -> Closure:
        block = self.block()
        numbers = np.arange(block.count, dtype=np.int32)
        numbers = numbers // divide if divide else numbers
        numbers = numbers % remainder if remainder else numbers
        folded = block.folded(numbers)
        return lambda frame: folded

    def _call_tl_shuffle_elect(self, node: Any) -> Closure:
        block = self.block()
        extent = int(node.args[0].value) or block.count
        folded = block.folded(np.arange(block.count) % extent == 0)
        return lambda frame: folded

    # ------------------------------------------------------------------------------------------ shuffles

    def _call_shfl_sync(self, node: Any) -> Closure:
        return self._shuffle(node, lambda me, lane, start, width: (start + lane % width, start, start + width))

    def _call_shfl_xor_sync(self, node: Any) -> Closure:
        return self._shuffle(node, lambda me, delta, start, width: (me ^ delta, 0, start + width))

    def _call_shfl_up_sync(self, node: Any) -> Closure:
        return self._shuffle(node, lambda me, delta, start, width: (me - delta, start, start + width))

    def _call_shfl_down_sync(self, node: Any) -> Closure:
        return self._shuffle(node, lambda me, delta, start, width: (me + delta, start, start + width))

    def _shuffle(self, node: Any, source: Callable[..., Any]) -> Closure:
        """Every thread takes the value of another; one outside of its segment leaves the thread its own."""
        dtype = numpy_dtype(str(node.dtype))
        value, other, width = (self.value(arg) for arg in node.args[1:4])
        block = self.block()
        count = block.count
        me = np.arange(count, dtype=np.int64)

        def run(frame: Frame) -> Value:
            values = block.spread(value(frame), dtype)
            segment = np.asarray(width(frame)).reshape(-1)[0]
            operand = block.spread(np.asarray(other(frame), np.int64), np.dtype(np.int64))
            start = me - me % segment
            index, low, high = source(me, operand, start, segment)
            index = np.where((index >= low) & (index < high) & (index < count), index, me)
            taken = np.take_along_axis(*np.broadcast_arrays(values, index), axis=-1)
            return block.folded(taken)

        return run

    # ---------------------------------------------------------------------------------------- reductions

    def _warp_reduction(self, node: Any, combine: Any) -> Closure:
        dtype = numpy_dtype(str(node.dtype))
        value = self.value(node.args[0])
        block = self.block()
        if block.count % WARP:
            raise Unsupported("reduction over a warp that is not full", self.place)

        def run(frame: Frame) -> Value:
            values = block.spread(value(frame), dtype)
            warps = values.reshape((*values.shape[:-1], -1, WARP))
            result = combine.reduce(warps, axis=-1, keepdims=True).astype(dtype, copy=False)
            return block.folded(np.broadcast_to(result, warps.shape).reshape(values.shape))

        return run

    def _call_warp_reduce_sum(self, node: Any) -> Closure:
        return self._warp_reduction(node, np.add)

    def _call_warp_reduce_max(self, node: Any) -> Closure:
        return self._warp_reduction(node, np.maximum)

    def _call_warp_reduce_min(self, node: Any) -> Closure:
        return self._warp_reduction(node, np.minimum)

    def _call_warp_reduce_bitand(self, node: Any) -> Closure:
        return self._warp_reduction(node, np.bitwise_and)

    def _call_warp_reduce_bitor(self, node: Any) -> Closure:
        return self._warp_reduction(node, np.bitwise_or)

    def allreduce(self, node: Any) -> Callable[[Frame], None]:
        """`tvm_thread_allreduce(count, value…, condition, result…, thread index…)` for one value."""
        if int(node.args[0].value) != 1 or self.reducer is None:
            raise Unsupported("reduction of several values over threads", self.place)
        combiner = COMBINERS.get(kind(self.reducer.result[0]))
        if combiner is None:
            raise Unsupported("reduction over threads by another combiner", self.place)
        value, condition = self.value(node.args[1]), self.value(node.args[2])
        identity = self.value(self.reducer.identity_element[0])
        target = node.args[3]
        result = self.access(target.buffer, target.indices)
        axes = [self.lanes[variable] for variable in node.args[4:] if variable in self.lanes]
        dtype, block = result.buffer.dtype, self.block()

        def run(frame: Frame) -> None:
            values = block.spread(value(frame), dtype)
            active = condition(frame)
            if active is not True:
                values = np.where(block.spread(active, np.dtype(np.bool_)), values, identity(frame))
            array = block.folded(values)
            for axis in axes:
                array = combiner.reduce(array, axis=array.ndim - 1 - axis, keepdims=True).astype(dtype, copy=False)
            result.store(frame, array)

        self.allreduce_target = result.buffer
        return run

    # --------------------------------------------------------------------------------------------- votes

    def _vote(
        self, node: Any, predicate: Any, group: int | None, answer: Callable[[np.ndarray], np.ndarray]
    ) -> Closure:
        """What the active threads of every group of `group` threads (None: of the block) say together."""
        dtype = numpy_dtype(str(node.dtype))
        test = self.value(predicate)
        block = self.block()
        size = group or block.count
        if block.count % size:
            raise Unsupported("vote of a warp that is not full", self.place)
        of_all = answer is all_of

        def run(frame: Frame) -> Value:
            says = block.spread(np.asarray(test(frame)) != 0, np.dtype(np.bool_))
            if frame.mask is not None:
                active = block.spread(frame.mask, np.dtype(np.bool_))
                says = (says | ~active) if of_all else (says & active)
            groups = says.reshape((*says.shape[:-1], -1, size))
            result = answer(groups).astype(dtype)
            return block.folded(np.broadcast_to(result[..., None], groups.shape).reshape(says.shape))

        return run

    def _call_any_sync(self, node: Any) -> Closure:
        return self._vote(node, node.args[1], WARP, any_of)

    def _call_all_sync(self, node: Any) -> Closure:
        return self._vote(node, node.args[1], WARP, all_of)

    def _call_ballot_sync(self, node: Any) -> Closure:
        return self._vote(node, node.args[1], WARP, ballot)

    def _call_ballot(self, node: Any) -> Closure:
        return self._vote(node, node.args[0], WARP, ballot)

    def _call_syncthreads_count(self, node: Any) -> Closure:
        return self._vote(node, node.args[0], None, count_of)

    def _call_syncthreads_and(self, node: Any) -> Closure:
        return self._vote(node, node.args[0], None, all_of)

    def _call_syncthreads_or(self, node: Any) -> Closure:
        return self._vote(node, node.args[0], None, any_of)


def any_of(groups: np.ndarray) -> np.ndarray:
    return groups.any(axis=-1)


def all_of(groups: np.ndarray) -> np.ndarray:
    return groups.all(axis=-1)


def count_of(groups: np.ndarray) -> np.ndarray:
    return groups.sum(axis=-1)


def ballot(groups: np.ndarray) -> np.ndarray:
    weights = np.uint64(1) << np.arange(groups.shape[-1], dtype=np.uint64)
    return (groups * weights).sum(axis=-1, dtype=np.uint64)
