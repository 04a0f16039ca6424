"""A launch of a script computed again with a changed kernel, and what came of it held against what the script compared it with."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from . import mismatch, rebuilt, segments

#: bytes that are kept of what a launch began with
MOST_BYTES = 256 << 20
#: blocks that are computed alone to find one that tells wrong changes from right ones, and for so many seconds
BLOCKS, LOOKING = 64, 1.0
#: a changed kernel may do so many times the work of the unchanged one, and a little
MORE_WORK, LITTLE_WORK = 4.0, 1e6


class NotReplayed(Exception):
    """Why the launch cannot be computed again, or says nothing."""


class Launch:
    """What a launch began with, the `number`th of the script; its memory is that of the script's tensors. Raises `NotReplayed`."""

    def __init__(self, number: int, func: Any, arrays: Sequence[Any], fresh: Collection[int]) -> None:
        self.number = number
        #: the script found a difference in what it wrote; digests of what is compared if it wrote other values
        self.differs = False
        self.met: set[bytes] = set()
        self.func, self.fresh, self.live = func, frozenset(fresh), list(arrays)
        self.cost = 0.0
        own = [array for array in arrays if isinstance(array, numpy.ndarray)]
        if sum(array.nbytes for array in own) > MOST_BYTES:
            raise NotReplayed("the arguments are too large")
        if any(not array.flags.c_contiguous or not array.flags.writeable for array in own):
            raise NotReplayed("an argument is not contiguous")
        if any(numpy.shares_memory(a, b) for n, a in enumerate(own) for b in own[:n]):
            raise NotReplayed("arguments share memory")
        self._before = [array.copy() if isinstance(array, numpy.ndarray) else array for array in arrays]

    def scramble(self) -> None:
        """Put other values, of which no two are alike, into what the launch wrote."""
        numbers = numpy.random.default_rng(0)
        for position in self.written():
            array = self.live[position]
            high = 2 if array.dtype == bool else 100
            real = array.dtype.kind in "fV"
            some = numbers.random(array.shape) if real else numbers.integers(0, high, array.shape)
            array[...] = some.astype(array.dtype)

    def written(self) -> list[int]:
        """The positions of the arguments that the launch filled or changed, once it was computed."""
        arrays = ((n, array) for n, array in enumerate(self.live) if isinstance(array, numpy.ndarray))
        return [n for n, array in arrays if n in self.fresh or (array != self._before[n]).any()]

    def begin(self) -> list[Any]:
        """The arguments as they were, in memory of their own."""
        from . import twin

        arrays = [array.copy() if isinstance(array, numpy.ndarray) else array for array in self._before]
        for position in self.fresh:
            twin.poison(arrays[position])
        return arrays

    def compute(self, func: Any, only: tuple[int, ...] | None = None) -> list[Any]:
        """The arguments after a launch of `func`. Raises `twin.Unsupported`."""
        from . import twin

        arrays = self.begin()
        twin.run(func, arrays, limit=MORE_WORK * self.cost + LITTLE_WORK, fresh=self.fresh, only=only)
        return arrays


@dataclass
class Compared:
    """What the script compared: elements of the argument at `position`, in the shape and type of the comparison, with `expected`.

    `turned`: the script names the expected tensor first. `spared`: the part of the elements that may be anything.
    """

    position: int
    elements: torch.Tensor
    dtype: torch.dtype
    expected: torch.Tensor
    rtol: float
    atol: float
    equal_nan: bool
    turned: bool
    spared: float

    def taken(self, array: numpy.ndarray) -> torch.Tensor:
        """The compared elements of an argument."""
        return taken(array)[self.elements].to(self.dtype)

    def differs(self, values: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
        """Whether the comparison fails with these values; with a `mask`, for these elements alone."""
        pair = (self.expected, values) if self.turned else (values, self.expected)
        wrong = mismatch.wrong_elements(*pair, self.rtol, self.atol, self.equal_nan)
        if mask is not None:
            wrong &= mask
        return float(wrong.sum()) > self.spared * wrong.numel()


def compared(
    launch: Launch, actual: torch.Tensor, output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float,
    bounds: dict[str, Any], turned: bool,
) -> Compared:  # fmt: skip
    """How the compared tensor `actual` comes of `output`, which the launch wrote. Raises `NotReplayed` where it is not simply that, a part
    of it, or a copy."""
    address = output.untyped_storage().data_ptr()
    place = address + output.storage_offset() * output.element_size()
    starts = {n: _address(array) for n, array in enumerate(launch.live) if isinstance(array, numpy.ndarray)}
    holding = (n for n, start in starts.items() if start <= place < start + launch.live[n].nbytes)
    position = next(holding, None)
    if position is None or launch.live[position].dtype.itemsize != output.element_size():
        raise NotReplayed("the compared tensor is not what the launch wrote")
    array, start = launch.live[position], starts[position]
    numbers = torch.arange(array.size)
    first = (address - start) // output.element_size()
    if actual.untyped_storage().data_ptr() == address:
        elements = numbers.as_strided(actual.shape, actual.stride(), actual.storage_offset() + first)
    elif output.numel() == actual.numel():
        elements = numbers.as_strided(output.shape, output.stride(), output.storage_offset() + first).reshape(
            actual.shape
        )
    else:
        raise NotReplayed("the compared tensor is a part of a copy")
    spared = float(bounds.get("max_mismatched_ratio") or 0.0)
    equal_nan = bool(bounds.get("equal_nan"))
    found = Compared(position, elements, actual.dtype, expected, rtol, atol, equal_nan, turned, spared)
    if not mismatch.same_values(found.taken(array), actual):
        raise NotReplayed("the compared tensor was computed from what the launch wrote")
    return found


class Replay:
    """Computes the launch again, with changes. Raises `NotReplayed` if nothing is wrong without any."""

    def __init__(self, launch: Launch, kernel: rebuilt.Kernel, target: Compared) -> None:
        self.launch, self.kernel, self.target = launch, kernel, target
        #: the compared argument before the launch
        self._before = launch.begin()[target.position]
        whole = launch.compute(launch.func)[target.position]
        self._whole = target.taken(whole)
        if not target.differs(self._whole):
            raise NotReplayed("computed again, nothing is wrong")
        self._only = self._telling_block(whole)

    def agrees(self, parts: Sequence[rebuilt.Part]) -> bool | None:
        """Whether what was compared agrees under a change; None where nobody can say. Raises `NotRebuilt` where it cannot be made in this way."""
        try:
            func = self.kernel.with_parts(parts)
            alone = not any("atomic" in part["text"] for part in parts)
            if self._only is not None and alone and self._block_differs(self.launch.compute(func, self._only)):
                return False
            return not self.target.differs(self.target.taken(self.launch.compute(func)[self.target.position]))
        except rebuilt.NotRebuilt:
            raise
        except Exception:  # noqa: BLE001 - see below
            # whatever the frontend or the interpreter say of a text that makes no sense: the script itself is asked, which says it in full
            return None

    def _block_differs(self, arrays: list[Any]) -> bool:
        """Whether what a single block wrote is wrong, or it wrote nothing."""
        values = self.target.taken(arrays[self.target.position])
        mask = torch.from_numpy(self._written(arrays)).reshape(-1)[self.target.elements]
        return not bool(mask.any()) or self.target.differs(torch.where(mask, values, self._whole), mask)

    def _written(self, arrays: list[Any]) -> numpy.ndarray:
        """Which elements of the compared argument are no longer what they were."""
        now, before = _octets(arrays[self.target.position]), _octets(self._before)
        return now != before  # type: ignore[no-any-return]

    def _telling_block(self, whole: numpy.ndarray) -> tuple[int, ...] | None:
        """A block that writes wrong elements, and what it writes it writes alone; None where there is no such."""
        if self.target.position not in self.launch.fresh or "atomic" in str(self.launch.func):
            return None  # blocks may add to, or read, what others write
        until = time.monotonic() + LOOKING
        for number, block in enumerate(_blocks(self.launch.func)):
            if number == BLOCKS or time.monotonic() > until:
                return None
            arrays = self.launch.compute(self.launch.func, block)
            written = self._written(arrays)
            if bool((_octets(arrays[self.target.position])[written] != _octets(whole)[written]).any()):
                return None
            if written.any() and self._block_differs(arrays):
                return block
        return None


def _blocks(func: Any) -> Iterator[tuple[int, ...]]:
    """The blocks of the only launch of a kernel, in the order in which they are computed."""
    from tvm import tirx

    from . import units
    from .twin import launches

    extents = [extent for _, extent in segments.blocks_of((s for _, _, s in units.walk(func.body)), tirx)]
    if not extents or None in extents:
        return iter(())
    return launches.in_order([int(extent or 0) for extent in extents])


def _octets(array: numpy.ndarray) -> numpy.ndarray:
    """The elements as they lie in memory, NaN among them, as numbers of which equal means the same."""
    return array.reshape(-1).view(f"u{array.dtype.itemsize}")


def _address(array: numpy.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def taken(array: numpy.ndarray) -> torch.Tensor:
    """An array of any of the interpreter's types as a flat tensor."""
    values = array.reshape(-1)
    if values.dtype.kind == "V" or values.dtype.name.startswith(("bfloat", "float8")):
        values = values.astype(numpy.float32)
    return torch.from_numpy(numpy.ascontiguousarray(values))
