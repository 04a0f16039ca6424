"""The steps that lead to what a script compared (`trail`) computed again with a changed kernel, and what came of them held against what is expected."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from . import mismatch, rebuilt, segments, trail
from .trail import NotFollowed

#: blocks that are computed alone to find one that tells wrong changes from right ones, and for so many seconds
BLOCKS, LOOKING = 64, 1.0
#: a measure of some of the elements may be so many times that of all
PARTIAL = 4


@dataclass(frozen=True)
class Asked:
    """How the script compares: `turned`: it names the expected tensor first. `spared`: the part of the elements that may be anything.
    `measured`: the bounds of some measure of the error that it takes, where it has no tolerances."""

    rtol: float
    atol: float
    equal_nan: bool = False
    turned: bool = False
    spared: float = 0.0
    measured: tuple[float, ...] | None = None


@dataclass
class Compared:
    """What the script compared with `expected`: `form` in the memory that a `link` tells of, whose bytes are `now`, in the shape and type of the
    comparison."""

    link: trail.Link
    now: numpy.ndarray
    form: trail.Form
    shape: tuple[int, ...]
    dtype: torch.dtype
    expected: torch.Tensor
    asked: Asked

    def taken(self, memory: numpy.ndarray) -> torch.Tensor:
        """The compared elements of the memory."""
        return self.form.tensor(memory).reshape(self.shape).to(self.dtype)

    @functools.cached_property
    def before(self) -> torch.Tensor:
        """The compared elements as the script had them."""
        return self.taken(self.now)

    def differs(self, values: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
        """Whether the comparison fails with these values; with a `mask`, for these elements alone."""
        asked = self.asked
        if asked.measured is not None:
            return not self._mended(values, mask, asked.measured)
        pair = (self.expected, values) if asked.turned else (values, self.expected)
        wrong = mismatch.wrong_elements(*pair, asked.rtol, asked.atol, asked.equal_nan)
        if mask is not None:
            wrong &= mask
        return float(wrong.sum()) > asked.spared * wrong.numel()

    def is_wrong(self, mask: torch.Tensor) -> bool:
        """Whether these elements are among the wrong ones: where the script measures an error, whether it is about as large as that of all."""
        if self.asked.measured is None:
            return self.differs(self.before, mask)
        part, whole = mismatch.measures(self.before[mask], self.expected[mask]), self._measured_before
        return not math.isfinite(part[0]) if not math.isfinite(whole[0]) else part[0] > mismatch.LARGE * whole[0]

    def _mended(self, values: torch.Tensor, mask: torch.Tensor | None, bounds: Sequence[float]) -> bool:
        if mask is None:
            return mismatch.mended(self._measured_before, mismatch.measures(values, self.expected), bounds)
        before, after = (mismatch.measures(one[mask], self.expected[mask]) for one in (self.before, values))
        # a mean over some elements may be larger than that over all
        return mismatch.mended(before, after, [bound * PARTIAL for bound in bounds])

    @functools.cached_property
    def _measured_before(self) -> tuple[float, ...]:
        return mismatch.measures(self.before, self.expected)


def compared(
    steps: trail.Trail, actual: torch.Tensor, output: torch.Tensor | None, expected: torch.Tensor, asked: Asked
) -> Iterator[Compared]:
    """How the compared tensor `actual` comes of what launches wrote: by itself, else as a copy of their `output`, which the same values
    make it, whatever else has a part in it."""
    for tensor in (one for one in (actual, output) if one is not None and one.numel() == actual.numel()):
        storage = tensor.untyped_storage()
        now = trail.memory(storage)
        link = steps.link((int(storage.data_ptr()), int(storage.nbytes())), now)
        if link is None:
            continue
        form = trail.Form.of(tensor)
        found = Compared(link, now.copy(), form, tuple(actual.shape), actual.dtype, expected, asked)
        if mismatch.same_values(found.before, actual):
            yield found


class Replay:
    """Computes steps again, with changes. Raises `NotFollowed` if nothing is wrong without any."""

    def __init__(self, steps: Sequence[trail.Step], kernels: Sequence[rebuilt.Kernel], target: Compared) -> None:
        self.steps, self.target = steps, target
        self._launches = [step for step in steps if isinstance(step, trail.Launch)]
        self._kernels = {id(kernel.func): kernel for kernel in kernels}
        if not self._launches:
            raise NotFollowed("no launch leads to what is compared")
        #: where the launches that were computed last went beyond the ends of buffers, and where those of the unchanged kernels did
        self._strays: dict[int, frozenset[trail.Stray]] = {}
        whole = self._all({id(launch.func): launch.func for launch in self._launches})
        self._strayed = self._strays
        self._whole = target.taken(whole)
        if not target.differs(self._whole):
            raise NotFollowed("computed again, nothing is wrong")
        self._only = self._telling_block(whole)

    def agrees(self, parts: Sequence[rebuilt.Part]) -> bool | None:
        """Whether what was compared agrees under a change; None where nobody can say. Raises `NotRebuilt` where it cannot be made in this way."""
        try:
            changed = self._changed(parts)
            if self._only is not None and "atomic" not in str(parts):
                last = self._launches[-1]
                alone = list(changed) == [id(last.func)]
                if alone and self._block_differs(self._of_last(changed[id(last.func)], self._only)):
                    return False
            return not self.target.differs(self.target.taken(self._all(changed)))
        except rebuilt.NotRebuilt:
            raise
        except Exception:  # noqa: BLE001 - see below
            # whatever the frontend or the interpreter say of a text that makes no sense: the script itself is asked, which says it in full
            return None

    @property
    def strays(self) -> bool:
        """Whether with the change that was looked at last a launch went beyond the ends of a buffer, where it did not before."""
        for number, now in self._strays.items():
            before = self._strayed[number]
            known = {(kind, buffer) for kind, buffer, _ in before} | {(kind, place) for kind, _, place in before}
            if any((kind, buffer) not in known and (kind, at) not in known for kind, buffer, at in now):
                return True
        return False

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
        """The compared memory after all steps in which a change, or what comes of it, has a part."""
        new: dict[tuple[int, int], numpy.ndarray] = {}
        self._strays = {}
        for step in self.steps:
            begin = {n: link.changed(step.before[n], new) for n, link in step.links.items()}
            linked = {n: memory for n, memory in begin.items() if memory is not None}
            if isinstance(step, trail.Launch) and (id(step.func) in changed or linked):
                left = step.compute(changed.get(id(step.func), step.func), linked=linked)
                self._strays[step.order] = step.strays
            elif isinstance(step, trail.Operation) and linked:
                left = step.compute(linked)
            else:
                continue
            new |= {(step.order, position): memory for position, memory in left.items()}
        memory = self.target.link.changed(self.target.now, new)
        return self.target.now if memory is None else memory

    # ----------------------------------------------------------------------------- of the last launch a block that tells

    def _of_last(self, func: Any, only: tuple[int, ...] | None = None) -> numpy.ndarray:
        """The compared memory after the last launch alone is computed again, or a block of it."""
        last = self._launches[-1]
        left = last.compute(func, only)
        return self._compared({(last.order, position): memory for position, memory in left.items()})

    def _compared(self, new: Mapping[tuple[int, int], numpy.ndarray]) -> numpy.ndarray:
        link, after = self.target.link, {}
        for piece in link.pieces:
            after[piece.step.order, piece.position] = piece.step.after[piece.position]
        return link.taken(self.target.now, lambda piece: (after | dict(new))[piece.step.order, piece.position])

    def _block_differs(self, memory: numpy.ndarray) -> bool:
        """Whether what a single block wrote is wrong, or it wrote nothing."""
        values, mask = self.target.taken(memory), self._written(memory)
        return not bool(mask.any()) or self.target.differs(torch.where(mask, values, self._whole), mask)

    def _written(self, memory: numpy.ndarray) -> torch.Tensor:
        """Which of the compared elements are no longer what they were before the last launch."""
        changed = (memory != self._unwritten).reshape(-1, self.target.form.dtype.itemsize).any(axis=1)
        flags = torch.from_numpy(changed)
        form = self.target.form
        return flags.as_strided(form.shape, form.stride, form.offset).reshape(self.target.shape)

    @functools.cached_property
    def _unwritten(self) -> numpy.ndarray:
        last = self._launches[-1]
        arrays = last.begin()
        return self._compared({(last.order, n): trail.octets(arrays[n]) for n in last.written})

    def _telling_block(self, whole: numpy.ndarray) -> tuple[int, ...] | None:
        """A block that writes wrong elements, and what it writes it writes alone; None where there is no such, or what is compared is more than
        what the last launch wrote into fresh memory."""
        last = self.steps[-1]
        sole = [(piece.step, piece.position) for piece in self.target.link.pieces]
        if not isinstance(last, trail.Launch) or any(step is not last or n not in last.fresh for step, n in sole):
            return None
        if "atomic" in str(last.func) or any(one.func is last.func for one in self._launches[:-1]):
            return None  # blocks may add to, or read, what others write; or an earlier launch changes, too
        until = time.monotonic() + LOOKING
        for number, block in enumerate(_blocks(last.func)):
            if number == BLOCKS or time.monotonic() > until:
                return None
            memory = self._of_last(last.func, block)
            written = memory != self._unwritten
            if (memory[written] != whole[written]).any():
                return None
            mask = self._written(memory)
            if bool(mask.any()) and self.target.is_wrong(mask) and self._block_differs(memory):
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
