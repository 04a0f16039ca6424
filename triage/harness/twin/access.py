"""Reading and writing elements of buffers by many lanes at once.

An index is a base (a number, or a function of the frame) plus a multiple of at most one lane axis. Where the bases are
the same for all lanes, an access is a slice of the array; anything else gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dtypes import plain, poison_value
from .frame import Frame
from .memory import Storage, arranged, fits, lane

Base = int | Callable[[Frame], Any]


@dataclass(frozen=True, eq=False)
class BufferView:
    """A buffer of the program. `memory` numbers its storage; `shape` is a tuple, or a function of the frame."""

    name: str
    memory: int
    shape: tuple[int, ...] | Callable[[Frame], tuple[int, ...]]
    dtype: np.dtype
    scope: str

    def extent(self, frame: Frame) -> tuple[int, ...]:
        return self.shape if isinstance(self.shape, tuple) else self.shape(frame)


class Access:
    """One way to index one buffer; `thread_axes` is how many of the first axes are threads, `axes` those of the indices."""

    __slots__ = ("axes", "bases", "buffer", "coefficients", "is_global", "outside", "sliced", "thread_axes", "uniform")

    def __init__(
        self, buffer: BufferView, bases: Sequence[Base], axes: Sequence[int | None], coefficients: Sequence[int],
        thread_axes: int,
        outside: Callable[[Frame], Any] | None = None,
    ) -> None:  # fmt: skip
        self.buffer, self.bases, self.axes, self.coefficients = buffer, tuple(bases), tuple(axes), tuple(coefficients)
        self.sliced = tuple(axis for axis in axes if axis is not None)
        self.uniform = not self.sliced
        self.is_global = buffer.scope == "global"
        self.thread_axes = thread_axes
        #: what a read beside a global buffer gives, where that is not zero
        self.outside = outside

    # ------------------------------------------------------------------------------------------- reading

    def load(self, frame: Frame) -> Any:
        """The values of all lanes. Unwritten elements and indices out of bounds are recorded."""
        value, written = self.read(frame, legal_tail=False)
        if written is not None:
            self._report_unwritten(frame, written)
        return value

    def read(self, frame: Frame, legal_tail: bool) -> tuple[Any, Any]:
        """(values, which of them were written or None); an index out of bounds of global memory is no happening where
        `legal_tail`."""
        storage = frame.memory[self.buffer.memory]
        shape = self.buffer.extent(frame)
        values, written = storage.view(shape, self.buffer.dtype)
        bases = [base if type(base) is int else base(frame) for base in self.bases]
        key = self._key(frame, storage, bases, shape)
        if key is None:
            return self._gather(frame, storage, values, written, bases, shape, legal_tail)
        lanes = len(storage.lanes)
        if self.uniform and not lanes:
            value = plain(values[key])
            return value, None if written is None or written[key] else False
        axes = (*reversed(range(lanes)), *self.sliced)
        value = arranged(values[key], axes)
        if written is None:
            return value, None
        seen = written[key]
        if seen.all():
            if seen.size == written.size:
                storage.written = None
            return value, None
        return value, arranged(seen, axes)

    def _key(self, frame: Frame, storage: Storage, bases: list[Any], shape: tuple[int, ...]) -> tuple[Any, ...] | None:
        """The slices that take all lanes at once, if the bases are uniform and all is within bounds."""
        key: list[Any] = [slice(None)] * len(storage.lanes)
        for base, axis, coefficient, size in zip(bases, self.axes, self.coefficients, shape, strict=True):
            if not isinstance(base, (int, np.integer)) or base < 0:
                return None
            if axis is None:
                if base >= size:
                    return None
                key.append(int(base))
                continue
            last = base + coefficient * (frame.extents[axis] - 1)
            if coefficient < 1 or last >= size:
                return None
            if axis < len(storage.lanes) and storage.lanes[-1 - axis] != 1:
                return None
            key.append(slice(int(base), int(last) + 1, coefficient))
        if storage.lanes and any(axis < len(storage.lanes) for axis in self.sliced):
            return None
        return tuple(key)

    def _indices(self, frame: Frame, bases: list[Any]) -> list[Any]:
        return [
            base if axis is None else base + coefficient * lane(axis, frame.extents[axis])
            for base, axis, coefficient in zip(bases, self.axes, self.coefficients, strict=True)
        ]

    @staticmethod
    def _within(indices: list[Any], shape: tuple[int, ...]) -> tuple[list[Any], Any]:
        """Indices that are all within bounds, and which of the lanes had such (None: all)."""
        inside: Any = None
        safe = []
        for index, size in zip(indices, shape, strict=True):
            if isinstance(index, np.ndarray):
                if index.size and (index.min() < 0 or index.max() >= size):
                    good = (index >= 0) & (index < size)
                    index = np.where(good, index, 0)
                    inside = good if inside is None else inside & good
            elif not 0 <= index < size:
                index, inside = 0, False
            safe.append(index)
        return safe, inside

    @staticmethod
    def _lane_indices(storage: Storage) -> list[Any]:
        count = len(storage.lanes)
        return [0 if size == 1 else lane(count - 1 - at, size) for at, size in enumerate(storage.lanes)]

    def _gather(
        self, frame: Frame, storage: Storage, values: np.ndarray, written: np.ndarray | None, bases: list[Any],
        shape: tuple[int, ...], legal_tail: bool,
    ) -> tuple[Any, Any]:  # fmt: skip
        indices = self._indices(frame, bases)
        safe, inside = self._within(indices, shape)
        if inside is not None:
            self._report_outside(frame, "oob-read", indices, inside, shape, legal_tail)
            if 0 in shape:
                value = np.broadcast_to(np.zeros((), values.dtype), np.broadcast_shapes(*map(np.shape, indices)))
                return plain(value), None
        key = (*self._lane_indices(storage), *safe)
        value = values[key]
        seen = None if written is None else written[key]
        if inside is not None:
            other = self._beside(frame, values.dtype)
            value = np.where(inside, value, other)
            if storage.spilled:
                value = _with_spilled(storage, value, indices, np.asarray(inside))
            seen = None if seen is None else seen | ~np.asarray(inside)
        if isinstance(value, np.ndarray) and value.ndim:
            return value, None if seen is None or seen.all() else seen
        return plain(value), None if seen is None or seen else False

    def _beside(self, frame: Frame, dtype: np.dtype) -> Any:
        if not self.is_global:
            return poison_value(dtype)
        return np.zeros((), dtype) if self.outside is None else np.asarray(self.outside(frame)).astype(dtype)

    # ------------------------------------------------------------------------------------------- writing

    def store(self, frame: Frame, value: Any, legal_tail: bool = False, written: Any = None) -> None:
        """Write the values of the active lanes. `written` says which of them are defined (None: all)."""
        storage = frame.memory[self.buffer.memory]
        shape = self.buffer.extent(frame)
        bases = [base if type(base) is int else base(frame) for base in self.bases]
        if storage.private:
            self._make_room(frame, storage, bases, value)
        values, marks = storage.view(shape, self.buffer.dtype)
        key = self._key(frame, storage, bases, shape)
        if key is None or not self._assign(frame, storage, values, marks, key, value, written):
            self._scatter(frame, storage, values, marks, bases, shape, value, legal_tail, written)

    def _make_room(self, frame: Frame, storage: Storage, bases: list[Any], value: Any) -> None:
        """Give registers one copy for every lane that may write something else.

        Lanes of a loop whose variable is part of the index share one copy: they write different elements.
        """
        shapes = [np.shape(x) for x in (value, frame.mask, *bases) if isinstance(x, np.ndarray)]
        threads = [self.axes[i] for i, axis in enumerate(self.axes) if axis is not None and axis < self.thread_axes]
        shapes += [lane(axis, frame.extents[axis]).shape for axis in threads if axis is not None]
        if not shapes:
            return
        lanes = list(np.broadcast_shapes(*shapes))
        for axis in self.sliced:
            if axis >= self.thread_axes and axis < len(lanes):
                lanes[-1 - axis] = 1
        while lanes and lanes[0] == 1:
            del lanes[0]
        if not fits(tuple(lanes), storage.lanes):
            storage.expand(tuple(lanes))
            if len(storage.lanes) > self.thread_axes:
                frame.expanded.append(storage)

    def _assign(
        self, frame: Frame, storage: Storage, values: np.ndarray, marks: np.ndarray | None, key: tuple[Any, ...], value: Any,
        written: Any,
    ) -> bool:  # fmt: skip
        """Write a slice. False where lanes meet in one element and may not agree."""
        axes = (*reversed(range(len(storage.lanes))), *self.sliced)
        target = arranged(values[(*key, Ellipsis)], axes)
        mask = frame.mask
        if not fits(np.shape(value), target.shape):
            return False
        frame.spend(target.size)
        if mask is None:
            target[...] = value
        else:
            mask = _any_of_the_others(mask, target.shape)
            np.copyto(target, value, where=mask, casting="unsafe")
        if marks is not None:
            defined = True if written is None else written
            if mask is None and defined is True and target.size == values.size:
                storage.written = None
            elif mask is None:
                arranged(marks[(*key, Ellipsis)], axes)[...] = defined
            else:
                np.copyto(arranged(marks[(*key, Ellipsis)], axes), defined, where=mask)
        elif written is not None:
            self._unmark(storage, lambda marks: arranged(marks[(*key, Ellipsis)], axes), mask, written)
        return True

    def _unmark(self, storage: Storage, part: Callable[[np.ndarray], np.ndarray], mask: Any, written: Any) -> None:
        """Unwritten elements were copied over written ones."""
        if storage.values.shape != storage.lanes + storage.shape:
            return
        storage.written = np.ones(storage.values.shape, np.bool_)
        np.copyto(part(storage.written), written, where=True if mask is None else mask)

    def _scatter(
        self, frame: Frame, storage: Storage, values: np.ndarray, marks: np.ndarray | None, bases: list[Any],
        shape: tuple[int, ...], value: Any, legal_tail: bool, written: Any,
    ) -> None:  # fmt: skip
        indices = self._indices(frame, bases)
        safe, inside = self._within(indices, shape)
        if inside is not None:
            self._report_outside(frame, "oob-write", indices, inside, shape, legal_tail)
            if self.buffer.scope == "local.fragment":
                _spill(storage, value, indices, np.asarray(inside), frame.mask)
        places = [*self._lane_indices(storage), *safe]
        active = frame.mask if inside is None else inside if frame.mask is None else inside & frame.mask
        full = np.broadcast_shapes(*(np.shape(x) for x in (*places, value, active) if x is not None))
        chosen: Any = Ellipsis if active is None else np.broadcast_to(active, full)
        where = tuple(np.broadcast_to(place, full)[chosen] for place in places)
        what = np.broadcast_to(value, full)[chosen]
        frame.spend(np.size(what))
        values[where] = what
        if marks is not None:
            marks[where] = True if written is None else np.broadcast_to(written, full)[chosen]
        if np.size(what) > 1:
            self._report_collisions(frame, values[where], what, where[len(storage.lanes) :], shape)

    def slot(self, frame: Frame) -> np.ndarray | None:
        """The elements as an array of all lanes, one element for each, if they are a slice of memory that was written."""
        storage = frame.memory[self.buffer.memory]
        shape = self.buffer.extent(frame)
        values, marks = storage.view(shape, self.buffer.dtype)
        if storage.private or marks is not None:
            return None
        bases = [base if type(base) is int else base(frame) for base in self.bases]
        key = self._key(frame, storage, bases, shape)
        return None if key is None else arranged(values[(*key, Ellipsis)], self.sliced)

    def lanes_of(
        self, frame: Frame, value: Any, each: tuple[int, ...], legal_tail: bool
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray, Any, Any]:
        """For a read-modify-write by single lanes: the indices into the storage and the value of every active lane,
        the shape of all lanes, and what selects the active ones."""
        storage = frame.memory[self.buffer.memory]
        shape = self.buffer.extent(frame)
        bases = [base if type(base) is int else base(frame) for base in self.bases]
        if storage.private:
            self._make_room(frame, storage, bases, value)
        marks = storage.view(shape, self.buffer.dtype)[1]
        indices = self._indices(frame, bases)
        safe, inside = self._within(indices, shape)
        if inside is not None:
            self._report_outside(frame, "oob-write", indices, inside, shape, legal_tail=legal_tail)
        places = [*self._lane_indices(storage), *safe]
        active = frame.mask if inside is None else inside if frame.mask is None else inside & frame.mask
        full = np.broadcast_shapes(each, *(np.shape(x) for x in (*places, value, active) if x is not None))
        chosen: Any = Ellipsis if active is None else np.broadcast_to(active, full)
        where = tuple(np.broadcast_to(place, full)[chosen] for place in places)
        if marks is not None and not np.all(marks[where]):
            unwritten = np.zeros(full, np.bool_)
            unwritten[chosen] = ~marks[where]
            first = _first(indices, unwritten)
            count = int(unwritten.sum())
            frame.record("uninitialized-read", self.buffer.name, shape, first, count, scope=self.buffer.scope)
            marks[where] = True
        return where, np.broadcast_to(value, full)[chosen], full, chosen

    # ----------------------------------------------------------------------------------------- reporting

    def _report_outside(
        self, frame: Frame, kind: str, indices: list[Any], inside: Any, shape: tuple[int, ...], legal_tail: bool
    ) -> None:
        if legal_tail and self.is_global:
            return
        outside = ~np.asarray(inside) if frame.mask is None else ~np.asarray(inside) & frame.mask
        outside = np.broadcast_to(outside, np.broadcast_shapes(outside.shape, *map(np.shape, indices)))
        count = int(outside.sum())
        if count:
            frame.record(kind, self.buffer.name, shape, _first(indices, outside), count, scope=self.buffer.scope)

    def _report_unwritten(self, frame: Frame, written: Any) -> None:
        unwritten = ~np.asarray(written) if frame.mask is None else ~np.asarray(written) & frame.mask
        count = int(unwritten.sum())
        if not count:
            return
        shape = self.buffer.extent(frame)
        indices = self._indices(frame, [base if type(base) is int else base(frame) for base in self.bases])
        first = _first(indices, unwritten)
        frame.record("uninitialized-read", self.buffer.name, shape, first, count, scope=self.buffer.scope)

    def _report_collisions(
        self, frame: Frame, kept: np.ndarray, meant: np.ndarray, where: tuple[Any, ...], shape: tuple[int, ...]
    ) -> None:
        differs = kept != meant
        if not differs.any():
            return
        differs &= (kept == kept) | (meant == meant)  # NaN for NaN is no conflict
        count = int(differs.sum())
        if count:
            first = [np.asarray(index)[differs][0] for index in where]
            frame.record("collision", self.buffer.name, shape, first, count, scope=self.buffer.scope)


def _spill(storage: Storage, value: Any, indices: list[Any], inside: np.ndarray, mask: np.ndarray | None) -> None:
    """Keep what is written beside a fragment: its elements lie in registers of threads that follow from the indices
    alone, so that on a device they are mostly found again at the same indices."""
    outside = ~inside if mask is None else ~inside & mask
    full = np.broadcast_shapes(outside.shape, np.shape(value), *map(np.shape, indices))
    chosen = np.broadcast_to(outside, full)
    places = np.stack([np.broadcast_to(index, full)[chosen] for index in indices], axis=-1).reshape(-1, len(indices))
    storage.spilled.update(
        zip(map(tuple, places.tolist()), np.broadcast_to(value, full)[chosen].reshape(-1), strict=True)
    )


def _with_spilled(storage: Storage, value: np.ndarray, indices: list[Any], inside: np.ndarray) -> np.ndarray:
    """What was read, with the elements that were written beside the fragment."""
    full = np.broadcast_shapes(value.shape, *map(np.shape, indices))
    value = np.broadcast_to(value, full).copy()
    spread = [np.broadcast_to(index, full) for index in indices]
    for position in np.argwhere(np.broadcast_to(~inside, full)):
        at = tuple(position)
        known = storage.spilled.get(tuple(int(index[at]) for index in spread))
        value[at] = value[at] if known is None else known
    return value


def _first(indices: Sequence[Any], where: np.ndarray) -> list[int]:
    """The indices of the first lane that is set in `where`."""
    shape = np.broadcast_shapes(where.shape, *map(np.shape, indices))
    position = np.unravel_index(int(np.argmax(np.broadcast_to(where, shape))), shape)
    return [int(np.broadcast_to(index, shape)[position]) for index in indices]


def _any_of_the_others(mask: np.ndarray, target: tuple[int, ...]) -> np.ndarray:
    """A mask of the target's lanes: set where any lane of the axes that the target does not have is set."""
    extra = mask.ndim - len(target)
    if extra > 0:
        mask = mask.any(axis=tuple(range(extra)))
    axes = tuple(at for at in range(-mask.ndim, 0) if mask.shape[at] != 1 and target[at] == 1)
    return mask.any(axis=axes, keepdims=True) if axes else mask
