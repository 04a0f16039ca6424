"""Launches of a script computed again with a changed kernel, and what came of them held against what the script compared it with.

Of each launch is kept what it began with and what it wrote. What a later one begins with is either what an earlier one left there, a **link**, or
came from the script; then it has to be the same whatever the kernels compute (`independent`). So the launches that lead to what
is compared are a program of their own, and a changed kernel needs only those of them computed that it, or what it wrote, is part of.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from . import independent, mismatch, rebuilt, segments

#: bytes that are kept of all launches
MOST_BYTES = 256 << 20
#: blocks that are computed alone to find one that tells wrong changes from right ones, and for so many seconds
BLOCKS, LOOKING = 64, 1.0
#: a measure of some of the elements may be so many times that of all
PARTIAL = 4
#: a changed kernel may do so many times the work of the unchanged one, and a little
MORE_WORK, LITTLE_WORK = 4.0, 1e6


class NotReplayed(Exception):
    """Why launches cannot be computed again, or say nothing."""


@dataclass(frozen=True)
class Link:
    """An argument begins with what a launch left in one of its own: bytes from `start` on."""

    launch: Launch
    position: int
    start: int

    def taken(self, array: numpy.ndarray, like: numpy.ndarray) -> numpy.ndarray:
        """That part of what the launch left, as an array of its own."""
        octets = array.reshape(-1).view(numpy.uint8)[self.start : self.start + like.nbytes]
        return octets.copy().view(like.dtype).reshape(like.shape)


class Launch:
    """The `number`th launch of a script: what it began with and, once it is `done`, what it wrote. Raises `NotReplayed`."""

    def __init__(
        self, number: int, func: Any, arrays: Sequence[Any], fresh: Collection[int], written: Collection[int]
    ) -> None:
        self.number, self.func, self.fresh, self.written = number, func, frozenset(fresh), tuple(written)
        self.cost = 0.0
        own = [array for array in arrays if isinstance(array, numpy.ndarray)]
        if any(not array.flags.c_contiguous or not array.flags.writeable for array in own):
            raise NotReplayed("an argument is not contiguous")
        if any(numpy.shares_memory(a, b) for n, a in enumerate(own) for b in own[:n]):
            raise NotReplayed("arguments share memory")
        self._live = list(arrays)
        self.places = {
            n: (_address(array), array.nbytes) for n, array in enumerate(arrays) if isinstance(array, numpy.ndarray)
        }
        self.before = [array.copy() if isinstance(array, numpy.ndarray) else array for array in arrays]
        self.after: dict[int, numpy.ndarray] = {}
        self.links: dict[int, Link] = {}

    def done(self, cost: float) -> None:
        self.cost = cost
        self.after = {n: self._live[n].copy() for n in self.written}
        self._live = []

    @property
    def nbytes(self) -> int:
        return 2 * sum(size for _, size in self.places.values())

    def begin(self, linked: Mapping[int, numpy.ndarray] | None = None) -> list[Any]:
        """The arguments as they were, in memory of their own, but for those that are `linked` to something else."""
        from . import twin

        arrays = [array.copy() if isinstance(array, numpy.ndarray) else array for array in self.before]
        for position in self.fresh:
            twin.poison(arrays[position])
        for position, array in (linked or {}).items():
            arrays[position] = array
        return arrays

    def compute(
        self, func: Any, only: tuple[int, ...] | None = None, linked: Mapping[int, numpy.ndarray] | None = None
    ) -> list[Any]:
        """The arguments after a launch of `func`. Raises `twin.Unsupported`."""
        from . import twin

        arrays = self.begin(linked)
        twin.run(func, arrays, limit=MORE_WORK * self.cost + LITTLE_WORK, fresh=self.fresh, only=only)
        return arrays


class Launches:
    """The launches of a script so far, the last ones if they take much memory."""

    def __init__(self) -> None:
        self._kept: list[Launch] = []

    def add(self, launch: Launch) -> None:
        """One that is about to be computed."""
        for position, place in launch.places.items():
            if position not in launch.fresh:
                link = self._link(place, launch.before[position])
                if link is not None:
                    launch.links[position] = link
        self._kept.append(launch)
        while sum(one.nbytes for one in self._kept) > MOST_BYTES:
            del self._kept[0]

    def _link(self, place: tuple[int, int], array: numpy.ndarray) -> Link | None:
        """What the last launch left that wrote where an array lies, if that is still there."""
        for launch in reversed(self._kept):
            for position, after in launch.after.items():
                start, size = launch.places[position]
                if start <= place[0] and place[0] + place[1] <= start + size:
                    link = Link(launch, position, place[0] - start)
                    return link if (_octets(link.taken(after, array)) == _octets(array)).all() else None
                if start < place[0] + place[1] and place[0] < start + size:
                    return None  # a part of it, of which nobody knows who wrote the rest
        return None

    def compared(
        self, actual: torch.Tensor, output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float, bounds: dict[str, Any],
        turned: bool, measured: Sequence[float] | None,
    ) -> Compared:  # fmt: skip
        """How the compared tensor `actual` comes of `output`, which a launch wrote. Raises `NotReplayed` where it is not simply that, a part
        of it, or a copy."""
        address = output.untyped_storage().data_ptr()
        place = address + output.storage_offset() * output.element_size()
        if not self._kept:
            raise NotReplayed("no launch was kept")
        spared = float(bounds.get("max_mismatched_ratio") or 0.0)
        equal_nan = bool(bounds.get("equal_nan"))
        why = "the compared tensor is not what a launch wrote"
        for launch in reversed(self._kept):
            for position in launch.after:
                start, size = launch.places[position]
                if not start <= place < start + size or launch.after[position].dtype.itemsize != output.element_size():
                    continue
                elements = _elements(
                    launch.after[position].size, actual, output, (address - start) // output.element_size()
                )
                found = Compared(
                    launch,
                    position,
                    elements,
                    actual.dtype,
                    expected,
                    rtol,
                    atol,
                    equal_nan,
                    turned,
                    spared,
                    measured,
                )
                if mismatch.same_values(found.taken(launch.after[position]), actual):
                    return found
                why = "the compared tensor was computed from what a launch wrote"
        raise NotReplayed(why)


def _elements(count: int, actual: torch.Tensor, output: torch.Tensor, first: int) -> torch.Tensor:
    """The numbers of the compared elements among the `count` ones of an argument; `first` is where the storage of the output begins in it."""
    numbers = torch.arange(count)
    if actual.untyped_storage().data_ptr() == output.untyped_storage().data_ptr():
        return numbers.as_strided(actual.shape, actual.stride(), actual.storage_offset() + first)
    if output.numel() == actual.numel():
        return numbers.as_strided(output.shape, output.stride(), output.storage_offset() + first).reshape(actual.shape)
    raise NotReplayed("the compared tensor is a part of a copy")


@dataclass
class Compared:
    """What the script compared: elements of the argument at `position` of a launch, in the shape and type of the comparison, with `expected`.

    `turned`: the script names the expected tensor first. `spared`: the part of the elements that may be anything.
    `measured`: the bounds of some measure of the error that the script takes, where it has no tolerances.
    """

    launch: Launch
    position: int
    elements: torch.Tensor
    dtype: torch.dtype
    expected: torch.Tensor
    rtol: float
    atol: float
    equal_nan: bool
    turned: bool
    spared: float
    measured: Sequence[float] | None

    def taken(self, array: numpy.ndarray) -> torch.Tensor:
        """The compared elements of an argument."""
        return taken(array)[self.elements].to(self.dtype)

    @functools.cached_property
    def before(self) -> torch.Tensor:
        """The compared elements as the launch left them."""
        return self.taken(self.launch.after[self.position])

    def differs(self, values: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
        """Whether the comparison fails with these values; with a `mask`, for these elements alone."""
        if self.measured is not None:
            return not self._mended(values, mask, self.measured)
        pair = (self.expected, values) if self.turned else (values, self.expected)
        wrong = mismatch.wrong_elements(*pair, self.rtol, self.atol, self.equal_nan)
        if mask is not None:
            wrong &= mask
        return float(wrong.sum()) > self.spared * wrong.numel()

    def _mended(self, values: torch.Tensor, mask: torch.Tensor | None, bounds: Sequence[float]) -> bool:
        if mask is None:
            return mismatch.mended(self._measured_before, mismatch.measures(values, self.expected), bounds)
        before, after = (mismatch.measures(one[mask], self.expected[mask]) for one in (self.before, values))
        # a mean over some elements may be larger than that over all
        return mismatch.mended(before, after, [bound * PARTIAL for bound in bounds])

    @functools.cached_property
    def _measured_before(self) -> tuple[float, ...]:
        return mismatch.measures(self.before, self.expected)


def leading_to(launch: Launch, told: independent.Told, seconds: float) -> list[Launch]:
    """The launches of which a launch reads something, itself the last, in their order. Raises `NotReplayed` if anything else that one of them
    is given may depend on what kernels compute."""
    found = {launch.number: launch}
    queue = [launch]
    for one in queue:  # which grows
        for link in one.links.values():
            if link.launch.number not in found:
                found[link.launch.number] = link.launch
                queue.append(link.launch)
        given = [(n, value) for n, value in enumerate(one.before) if n not in one.fresh and n not in one.links]
        if not all(value is None or told.is_given(one.number, n, value, seconds) for n, value in given):
            raise NotReplayed("a launch is given what the script computed from a result")
    return [found[number] for number in sorted(found)]


class Replay:
    """Computes launches again, with changes. Raises `NotReplayed` if nothing is wrong without any."""

    def __init__(self, launches: Sequence[Launch], kernels: Sequence[rebuilt.Kernel], target: Compared) -> None:
        self.launches, self.target, self.last = launches, target, target.launch
        self._kernels = {id(kernel.func): kernel for kernel in kernels}
        whole = self.last.compute(self.last.func)[target.position]
        self._whole = target.taken(whole)
        if not target.differs(self._whole):
            raise NotReplayed("computed again, nothing is wrong")
        self._only = self._telling_block(whole)

    def agrees(self, parts: Sequence[rebuilt.Part]) -> bool | None:
        """Whether what was compared agrees under a change; None where nobody can say. Raises `NotRebuilt` where it cannot be made in this way."""
        try:
            changed = self._changed(parts)
            if list(changed) == [id(self.last.func)] and not self._links_to_itself:
                return self._last_agrees(changed[id(self.last.func)], parts)
            return not self.target.differs(self.target.taken(self._all(changed)))
        except rebuilt.NotRebuilt:
            raise
        except Exception:  # noqa: BLE001 - see below
            # whatever the frontend or the interpreter say of a text that makes no sense: the script itself is asked, which says it in full
            return None

    @functools.cached_property
    def _links_to_itself(self) -> bool:
        """Whether an earlier launch that matters is of the last one's kernel, too."""
        return any(one.func is self.last.func for one in self.launches[:-1])

    def _changed(self, parts: Sequence[rebuilt.Part]) -> dict[int, Any]:
        """The kernels that change, by what they were. Raises `NotRebuilt`."""
        changed = {}
        met: set[int] = set()
        for id_, kernel in self._kernels.items():
            ours = [part for part in parts if kernel.has(part["line"])]
            met |= {part["line"] for part in ours}
            if ours:
                changed[id_] = kernel.with_parts(ours)
        if any(part["line"] not in met for part in parts):
            raise rebuilt.NotRebuilt("a statement is in no kernel that was launched")
        return changed

    def _all(self, changed: Mapping[int, Any]) -> numpy.ndarray:
        """The compared argument after all launches in which a change, or what comes of it, has a part."""
        new: dict[tuple[int, int], numpy.ndarray] = {}
        for launch in self.launches:
            linked = {
                position: link.taken(new[link.launch.number, link.position], launch.before[position])
                for position, link in launch.links.items()
                if (link.launch.number, link.position) in new
            }
            linked = {n: array for n, array in linked.items() if (_octets(array) != _octets(launch.before[n])).any()}
            if id(launch.func) in changed or linked:
                arrays = launch.compute(changed.get(id(launch.func), launch.func), linked=linked)
                new |= {(launch.number, position): arrays[position] for position in launch.written}
        return new.get((self.last.number, self.target.position), self.last.after[self.target.position])

    def _last_agrees(self, func: Any, parts: Sequence[rebuilt.Part]) -> bool:
        """Whether it agrees where the last launch alone changes, of which a block may be enough to say no."""
        alone = not any("atomic" in part["text"] for part in parts)
        if self._only is not None and alone and self._block_differs(self.last.compute(func, self._only)):
            return False
        return not self.target.differs(self.target.taken(self.last.compute(func)[self.target.position]))

    def _block_differs(self, arrays: list[Any]) -> bool:
        """Whether what a single block wrote is wrong, or it wrote nothing."""
        values = self.target.taken(arrays[self.target.position])
        mask = self._compared(self._written(arrays))
        return not bool(mask.any()) or self.target.differs(torch.where(mask, values, self._whole), mask)

    def _compared(self, written: numpy.ndarray) -> torch.Tensor:
        """Which of the compared elements are among those that were written."""
        return torch.from_numpy(written).reshape(-1)[self.target.elements]

    @functools.cached_property
    def _before(self) -> numpy.ndarray:
        return _octets(self.last.begin()[self.target.position])

    def _written(self, arrays: list[Any]) -> numpy.ndarray:
        """Which elements of the compared argument are no longer what they were."""
        return _octets(arrays[self.target.position]) != self._before  # type: ignore[no-any-return]

    def _telling_block(self, whole: numpy.ndarray) -> tuple[int, ...] | None:
        """A block that writes wrong elements, and what it writes it writes alone; None where there is no such."""
        if self.target.position not in self.last.fresh or "atomic" in str(self.last.func):
            return None  # blocks may add to, or read, what others write
        until = time.monotonic() + LOOKING
        for number, block in enumerate(_blocks(self.last.func)):
            if number == BLOCKS or time.monotonic() > until:
                return None
            arrays = self.last.compute(self.last.func, block)
            written = self._written(arrays)
            if bool((_octets(arrays[self.target.position])[written] != _octets(whole)[written]).any()):
                return None
            if bool(self._compared(written).any()) and self._block_differs(arrays):
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
