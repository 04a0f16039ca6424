"""Running a PrimFunc on arrays."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from .access import BufferView
from .dtypes import numpy_dtype, poison_value
from .expressions import kind
from .frame import Frame
from .launches import Compiler
from .memory import Storage
from .outcome import Happening, Observer, Outcome, Unsupported

#: element operations; about a minute of numpy
WORK_LIMIT = 1e9

#: compiled programs that are kept: a script has few kernels, a search for a repair many
PROGRAMS = 64


class Program:
    """A PrimFunc compiled to closures."""

    def __init__(self, func: Any) -> None:
        self.func = func
        self.compiler = compiler = Compiler()
        self.parameters = [self._parameter(param) for param in func.params]
        for _, buffer in self.parameters:
            if buffer is not None:
                compiler.view(buffer)
        self.body: Callable[[Frame], None] = compiler.statement(func.body, "0")

    def _parameter(self, param: Any) -> tuple[Any, Any]:
        buffer = self.func.buffer_map.get(param, None)
        if buffer is None:
            if str(param.dtype) == "handle":
                self.compiler.memory(param)
            else:
                self.compiler.slot(param)
            return param, None
        for extent in [*buffer.shape, *buffer.strides]:
            if kind(extent) in ("Var", "SizeVar"):
                self.compiler.slot(extent)
        return param, buffer

    def run(
        self,
        args: Sequence[Any],
        limit: float,
        observer: Observer | None,
        fresh: Collection[int],
        only: tuple[int, ...] | None = None,
    ) -> Outcome:
        compiler = self.compiler
        if len(args) != len(self.parameters):
            raise Unsupported("another number of arguments")
        frame = Frame(len(compiler.slots), len(compiler.memories), limit, observer)
        frame.only = only
        frame.extents = [1] * (compiler.deepest + 1)
        back = []
        for position, ((param, buffer), value) in enumerate(zip(self.parameters, args, strict=True)):
            if buffer is None:
                self._bind_scalar(frame, param, value)
                continue
            view = compiler.view(buffer)
            if not isinstance(value, np.ndarray) or value.ndim != len(buffer.shape):
                raise Unsupported(f"argument of another shape for {view.name}")
            pack = value if view.dtype.name in FOUR_BITS and value.dtype != view.dtype else None
            value = value if pack is None else unpacked(value, view.dtype)
            self._bind_symbols(frame, buffer, value)
            array, give_back = self._array(view, value, view.extent(frame))
            if pack is not None:
                give_back = functools.partial(repack, array, pack)
            back.append(give_back)
            written = np.zeros(array.shape, np.bool_) if position in fresh else None
            frame.memory[view.memory] = Storage(view.name, "global", array, written, private=False)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # ml_dtypes warns of NaN beside numpy's own settings
            self.body(frame)
        for give in back:
            give()
        happenings = list(frame.found.values())
        happenings += [h for p in sorted(fresh) if (h := self._never_written(frame, p)) is not None]
        return Outcome(happenings, frame.work, frame.statements)

    def _bind_scalar(self, frame: Frame, param: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            number = self.compiler.memories.get(param)
            if number is None:
                raise Unsupported("array for a scalar parameter")
            frame.memory[number] = Storage(str(param.name), "global", value, None, private=False)
            return
        dtype = numpy_dtype(str(param.dtype))
        frame.variables[self.compiler.slots[param]] = value if isinstance(value, (bool, int)) else dtype.type(value)

    def _bind_symbols(self, frame: Frame, buffer: Any, value: np.ndarray) -> None:
        for extent, size in zip(buffer.shape, value.shape, strict=True):
            if kind(extent) in ("Var", "SizeVar"):
                frame.variables[self.compiler.slots[extent]] = int(size)
        for stride, step in zip(buffer.strides, value.strides, strict=False):
            if kind(stride) in ("Var", "SizeVar"):
                frame.variables[self.compiler.slots[stride]] = int(step) // value.itemsize

    def _array(
        self, view: BufferView, value: np.ndarray, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, Callable[[], None]]:
        """The array to work on, and what puts the results where the caller looks for them."""
        if tuple(value.shape) != shape:
            raise Unsupported(f"argument of another shape for {view.name}")
        array = value
        if array.dtype != view.dtype:
            if array.dtype.itemsize != view.dtype.itemsize:
                raise Unsupported(f"argument of type {array.dtype.name} for {view.dtype.name}")
            array = array.view(view.dtype)
        if array.flags.c_contiguous and array.flags.writeable:
            return array, lambda: None
        own = np.ascontiguousarray(array) if not array.flags.c_contiguous else array.copy()

        def give_back() -> None:
            if array.flags.writeable:
                array[...] = own

        return own, give_back

    def _never_written(self, frame: Frame, position: int) -> Happening | None:
        _, buffer = self.parameters[position]
        if buffer is None:
            return None
        view = self.compiler.view(buffer)
        written = frame.memory[view.memory].written
        if written is None or written.all():
            return None
        first = np.unravel_index(int(np.argmin(written)), written.shape)
        count = int(written.size - written.sum())
        return Happening("never-written", view.name, None, tuple(int(i) for i in first), written.shape, count)


#: types of which PyTorch holds two in a byte, the first in the low bits
FOUR_BITS = ("int4", "uint4", "float4_e2m1fn")


def unpacked(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Bytes of two elements each as elements; the last dimension is twice as long."""
    octets = np.ascontiguousarray(value).view(np.uint8)
    nibbles = np.stack([octets & 15, octets >> 4], axis=-1).reshape(*octets.shape[:-1], -1)
    if dtype.name == "float4_e2m1fn":
        return nibbles.view(dtype)
    signed = (nibbles.astype(np.int8) ^ 8) - 8 if dtype.name == "int4" else nibbles
    return signed.astype(dtype)


def repack(elements: np.ndarray, pack: np.ndarray) -> None:
    """Write elements back to where they came from."""
    if elements.dtype.name == "float4_e2m1fn":
        nibbles = elements.view(np.uint8) & 15
    else:
        nibbles = elements.astype(np.int8).view(np.uint8) & 15
    pairs = nibbles.reshape(*pack.shape, 2)
    pack.view(np.uint8)[...] = pairs[..., 0] | (pairs[..., 1] << 4)


@functools.lru_cache(maxsize=PROGRAMS)
def program(func: Any) -> Program:
    return Program(func)


def run(
    func: Any, args: Sequence[Any], *, limit: float = WORK_LIMIT, observer: Observer | None = None,
    fresh: Collection[int] = (), only: tuple[int, ...] | None = None,
) -> Outcome:  # fmt: skip
    """Compute a PrimFunc of tilelang on arrays, which are changed in place.

    `args` has one entry for each parameter; `fresh` are the positions of those whose memory nobody wrote; of the blocks that do not meet,
    `only` one may be asked for. Raises
    `Unsupported` for what the interpreter does not know (the arrays may then be half written).
    """
    return program(func).run(args, limit, observer, frozenset(fresh), only)


def poison(array: np.ndarray) -> np.ndarray:
    """Fill an array with what unwritten memory holds: NaN, or a pattern that is no plausible integer."""
    array.fill(poison_value(array.dtype))
    return array
