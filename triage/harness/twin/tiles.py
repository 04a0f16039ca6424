"""Tile operators: copy, fill, gemm, reductions, scans and their like, one numpy step each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .access import Access, Base
from .arithmetic import Closure
from .dtypes import cast, is_float, numpy_dtype, to_tf32, wrap, wrapped_array
from .expressions import Expressions, as_scalar, kind, op_name
from .frame import Frame
from .outcome import Unsupported

Runner = Callable[[Frame], None]

#: elements of a product that one instruction of the tensor cores adds up before the accumulator is rounded
MMA_K = 16
#: multiplications in a gemm that take as long as one element operation
GEMM_RATE = 100.0


class Operand:
    """A region of a buffer. Its axes are new lanes, the first dimension outermost; other lanes follow on the right."""

    def __init__(
        self, compiler: Expressions, node: Any, extents: Sequence[Any] | None = None, domain: Any = None
    ) -> None:
        buffer, mins, sizes = parts(node)
        sizes = list(extents) if extents is not None else sizes
        self.buffer = compiler.view(buffer)
        self.extents: list[Base] = [compiler.number(size) for size in sizes]
        wide = [at for at, size in enumerate(self.extents) if size != 1]
        depth = compiler.depth
        self.axes: list[int] = [depth + len(wide) - 1 - rank for rank in range(len(wide))]
        self.wide_extents = [self.extents[at] for at in wide]
        bases: list[Base] = []
        axes: list[int | None] = []
        for at, smallest in enumerate(mins):
            base = compiler.number(compiler.from_the_end(smallest, buffer.shape[at]))
            bases.append(base if type(base) is int else uniform(base))
            axes.append(self.axes[wide.index(at)] if at in wide else None)
        self.access = Access(
            self.buffer,
            bases,
            axes,
            [1] * len(bases),
            compiler.thread_axes,
            compiler.safe_values.get(self.buffer.memory),
        )
        #: whether each thread has its own
        self.per_thread = self.buffer.scope in PRIVATE or any(compiler._has_lanes(smallest) for smallest in mins)

    def shape(self, frame: Frame) -> tuple[int, ...]:
        return tuple(extent if type(extent) is int else _whole(extent(frame)) for extent in self.extents)  # type: ignore[operator]

    def enter(self, frame: Frame) -> None:
        """Give the axes their extents."""
        for axis, extent in zip(self.axes, self.wide_extents, strict=True):
            frame.extents[axis] = extent if type(extent) is int else _whole(extent(frame))  # type: ignore[operator]

    def load(self, frame: Frame) -> np.ndarray:
        """The values, with the shape of the region followed by lanes."""
        self.enter(frame)
        value = np.asarray(self.access.load(frame))
        return value.reshape(self.shape(frame) + value.shape[len(self.axes) :])

    def store(self, frame: Frame, value: np.ndarray) -> None:
        """Write values of the shape of the region followed by lanes."""
        self.enter(frame)
        rest = value.shape[len(self.extents) :]
        wide = tuple(frame.extents[axis] for axis in self.axes)
        self.access.store(frame, value.reshape(wide + rest))


PRIVATE = ("local", "local.var")


def uniform(base: Closure) -> Closure:
    return lambda frame: as_scalar(base(frame))


def _whole(value: Any) -> int:
    scalar = as_scalar(value)
    if isinstance(scalar, np.ndarray):
        raise Unsupported("tile of a size that differs between threads")
    return max(0, int(scalar))


def parts(node: Any) -> tuple[Any, list[Any], list[Any]]:
    """Buffer, smallest indices and extents of a region, however it is written."""
    if kind(node) == "Call" and op_name(node) == "tl.region":
        load = node.args[0]
        return load.buffer, list(load.indices), list(node.args[2:])
    if kind(node) == "BufferLoad":
        return node.buffer, list(node.indices), [1] * len(node.indices)
    if kind(node) == "BufferRegion":
        return node.buffer, [r.min for r in node.region], [r.extent for r in node.region]
    if kind(node) == "Buffer":
        return node, [0] * len(node.shape), list(node.shape)
    raise Unsupported("tile operand of another form")


def collective(run: Runner, operands: Sequence[Operand]) -> Runner:
    """A tile operator is run by all threads of the block together, unless its operands are registers of each thread."""
    if any(operand.per_thread for operand in operands):
        return run

    def once(frame: Frame) -> None:
        before = frame.mask
        if before is not None and not before.any():
            return
        frame.mask = None
        try:
            run(frame)
        finally:
            frame.mask = before

    return once


# ---------------------------------------------------------------------------------------------- copy and fill


def copy(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
    source, target = Operand(compiler, args[0]), Operand(compiler, args[1])
    if len(source.axes) != len(target.axes):
        raise Unsupported("copy between regions of different rank", compiler.place)
    leader = source if level(source) >= level(target) else target
    from_type, to_type = source.buffer.dtype, target.buffer.dtype

    def run(frame: Frame) -> None:
        leader.enter(frame)
        value, written = source.access.read(frame, legal_tail=True)
        if written is not None and target.access.is_global:
            source.access._report_unwritten(frame, written)
            written = None
        target.access.store(frame, cast(value, from_type, to_type), legal_tail=True, written=written)

    return collective(run, (source, target)), [target]


def level(operand: Operand) -> int:
    """How near to the threads a memory is; the nearer side says how much is copied."""
    scope = operand.buffer.scope
    if scope.startswith("local"):
        return 2
    return 1 if scope.startswith("shared") else 0


def fill(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
    target = Operand(compiler, args[0])
    value, source = compiler.value(args[1]), numpy_dtype(str(args[1].dtype))

    def run(frame: Frame) -> None:
        target.enter(frame)
        target.access.store(frame, cast(value(frame), source, target.buffer.dtype), legal_tail=True)

    return collective(run, (target,)), [target]


def transpose(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
    """The last two dimensions change places."""
    source, target = Operand(compiler, args[0]), Operand(compiler, args[1])

    def run(frame: Frame) -> None:
        value = source.load(frame)
        rank = len(source.extents)
        turned = cast(np.swapaxes(value, rank - 2, rank - 1), source.buffer.dtype, target.buffer.dtype)
        target.store(frame, turned)

    return collective(run, (source, target)), [target]


# ------------------------------------------------------------------------------------------------------ gemm


def gemm(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
    a, b, c = (Operand(compiler, arg) for arg in args[:3])
    turn_a, turn_b = bool(args[3].value), bool(args[4].value)
    clear = compiler.value(args[9])
    multiply = multiplier(a.buffer.dtype, b.buffer.dtype, c.buffer.dtype)

    def run(frame: Frame) -> None:
        left, right = matrix(a, frame), matrix(b, frame)
        left = left.T if turn_a else left
        right = right.T if turn_b else right
        shape = c.shape(frame)
        if as_scalar(clear(frame)):
            accumulator = np.zeros((left.shape[0], right.shape[1]), c.buffer.dtype)
        else:
            accumulator = matrix(c, frame)
        frame.spend(left.shape[0] * right.shape[1] * left.shape[1] / GEMM_RATE)
        c.store(frame, multiply(left, right, accumulator).reshape(shape + (1,) * compiler_depth))

    compiler_depth = compiler.depth
    return collective(run, (a, b, c)), [c]


def matrix(operand: Operand, frame: Frame) -> np.ndarray:
    """A region of two wide dimensions; what lanes add must be of size 1."""
    value = operand.load(frame)
    rank = len(operand.extents)
    if value.size != int(np.prod(value.shape[:rank])):
        raise Unsupported("matrix in the registers of single threads")
    shape = value.shape[:rank]
    if any(size != 1 for size in shape[:-2]):
        raise Unsupported("gemm of more than two dimensions")
    return value.reshape(shape[-2:] if rank > 1 else (1, *shape))


def multiplier(a: np.dtype, b: np.dtype, c: np.dtype) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """accumulator + left @ right in the accumulator's type.

    fp32 multiplies exactly and adds in fp32; narrower accumulators are rounded after each step of the instruction.
    """
    if c == np.float64:
        return lambda left, right, sums: sums + left.astype(np.float64) @ right.astype(np.float64)
    if not is_float(c):
        limits = wrap(c)

        def integers(left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> np.ndarray:
            product = left.astype(np.float64) @ right.astype(np.float64)  # exact: sums of int8 products are below 2^53
            return wrapped_array(sums.astype(np.int64) + product.astype(np.int64), limits).astype(c)

        return integers
    tf32 = a == np.float32 and b == np.float32

    def wide(value: np.ndarray) -> np.ndarray:
        return to_tf32(value) if tf32 else value.astype(np.float32)

    if c == np.float32:
        return lambda left, right, sums: sums + wide(left) @ wide(right)

    def narrow(left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> np.ndarray:
        left, right = wide(left), wide(right)
        for start in range(0, left.shape[1], MMA_K):
            part = left[:, start : start + MMA_K] @ right[start : start + MMA_K]
            sums = (sums.astype(np.float32) + part).astype(c)
        return sums

    return narrow


# ------------------------------------------------------------------------------------- reductions and scans


def reduce(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
    source, target = Operand(compiler, args[0]), Operand(compiler, args[1])
    name, dim, clear = str(args[2].value), int(args[3].value), bool(args[4].value)
    combine, prepare = REDUCERS[name]
    from_type, to_type = source.buffer.dtype, target.buffer.dtype
    if is_float(to_type) and combine in FLOAT_COMBINERS:
        combine = FLOAT_COMBINERS[combine]

    def run(frame: Frame) -> None:
        value = source.load(frame)
        frame.spend(value.size)
        value = cast(prepare(value), from_type, to_type)
        result = folded(combine, value, dim, to_type)
        rest = result.shape[len(source.extents) - 1 :]
        result = result.reshape(target.shape(frame) + rest)
        if not clear:
            result = combine(target.load(frame), result)
        target.store(frame, result)

    return collective(run, (source, target)), [target]


def _same(value: np.ndarray) -> np.ndarray:
    return value


REDUCERS: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
    "sum": (np.add, _same),
    "abssum": (np.add, np.abs),
    "max": (np.maximum, _same),
    "absmax": (np.maximum, np.abs),
    "min": (np.minimum, _same),
    "bitand": (np.bitwise_and, _same),
    "bitor": (np.bitwise_or, _same),
    "bitxor": (np.bitwise_xor, _same),
}
#: of a number and NaN the device takes the number
FLOAT_COMBINERS = {np.maximum: np.fmax, np.minimum: np.fmin}


def folded(combine: Any, value: np.ndarray, axis: int, dtype: np.dtype) -> np.ndarray:
    """Combine along an axis, in the type itself. Narrow types in the shape of a tree, as threads do it."""
    if value.shape[axis] == 0:
        raise Unsupported("reduction of nothing")
    if dtype.itemsize >= 4 or combine is not np.add or not is_float(dtype):
        return np.asarray(
            combine.reduce(value, axis=axis, dtype=dtype) if combine is np.add else combine.reduce(value, axis=axis)
        )
    value = np.moveaxis(value, axis, 0)
    while value.shape[0] > 1:
        half = (value.shape[0] + 1) // 2
        low, high = value[:half], value[half:]
        value = np.concatenate([low[: high.shape[0]] + high, low[high.shape[0] :]])
    return value[0]


def scan(combine: Any) -> Callable[..., tuple[Runner, list[Operand]]]:
    def build(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
        source, target = Operand(compiler, args[0]), Operand(compiler, args[1])
        dim, backwards = int(args[2].value), bool(args[3].value)
        from_type, to_type = source.buffer.dtype, target.buffer.dtype
        wide = np.dtype(np.float32) if is_float(from_type) and from_type.itemsize < 4 else from_type

        def run(frame: Frame) -> None:
            value = source.load(frame).astype(wide)
            frame.spend(value.size)
            value = np.flip(value, dim) if backwards else value
            value = np.add.accumulate(value, dim, dtype=wide) if combine is np.add else combine.accumulate(value, dim)
            value = np.flip(value, dim) if backwards else value
            target.store(frame, cast(value, wide, to_type))

        return collective(run, (source, target)), [target]

    return build


def im2col(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
    """A tile of the matrix whose rows are output pixels (image, row, column) and whose columns are taps and channels."""
    source, target = Operand(compiler, args[0]), Operand(compiler, args[1])
    row, column = compiler.value(args[2]), compiler.value(args[3])
    kernel, stride, dilation, padding = (int(arg.value) for arg in args[4:8])
    number = source.buffer.memory

    def run(frame: Frame) -> None:
        shape = source.buffer.extent(frame)
        image, _ = frame.memory[number].view(shape, source.buffer.dtype)
        count, height, width, channels = shape
        rows, columns = target.shape(frame)[-2:]
        out_height, out_width = (
            (size + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1 for size in (height, width)
        )
        m = (int(as_scalar(row(frame))) * rows + np.arange(rows))[:, None]
        k = int(as_scalar(column(frame))) * columns + np.arange(columns)
        y = m % (out_height * out_width) // out_width * stride + k // (kernel * channels) * dilation - padding
        x = m % out_width * stride + k // channels % kernel * dilation - padding
        n = np.broadcast_to(m // (out_height * out_width), y.shape)
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (n < count)
        at = [np.where(inside, index, 0) for index in (n, y, x)]
        value = np.where(inside, image[(*at, np.broadcast_to(k % channels, y.shape))], np.zeros((), image.dtype))
        target.store(frame, value.reshape(target.shape(frame) + (1,) * depth))

    depth = compiler.depth
    return collective(run, (source, target)), [target]


def finish_reducer(compiler: Expressions, args: Sequence[Any], **_: Any) -> tuple[Runner, list[Operand]]:
    """Parts of a reducer are combined as they come, so that nothing is left to be done but to hand over the result."""
    return copy(compiler, args) if len(args) > 1 else (lambda frame: None, [])


OPERATORS: dict[str, Callable[..., tuple[Runner, list[Operand]]]] = {
    "tl.tileop.copy": copy,
    "tl.tileop.async_copy": copy,
    "tl.tileop.tma_copy": copy,
    "tl.tileop.wgmma_gemm": gemm,
    "tl.tileop.fill": fill,
    "tl.tileop.transpose": transpose,
    "tl.tileop.gemm": gemm,
    "tl.tileop.reduce": reduce,
    "tl.tileop.im2col": im2col,
    "tl.tileop.finalize_reducer": finish_reducer,
    "tl.tileop.finalize_reducer_v2": finish_reducer,
    "tl.tileop.cumsum": scan(np.add),
    "tl.tileop.cummax": scan(np.fmax),
}
