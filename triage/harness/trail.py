"""What the results of a script come of: its launches, and what PyTorch computed of what they wrote, step by step.

Of each **step** is kept what it began with and what it left. What a later one begins with was left there by earlier ones, which is a **link**, or
came from the script; then it has to be the same whatever the kernels compute (`independent`). So the steps that lead to what
is compared are a program of their own, and of a changed kernel only those need to be computed again that it, or what it wrote, has a part in.

Memory is looked at as bytes: an argument of a launch is an array, one of an operator the whole memory that its tensors lie in.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from . import independent

#: bytes that are kept of all steps, and how many steps
MOST_BYTES, MOST_STEPS = 256 << 20, 5_000
#: a changed kernel may do so many times the work of the unchanged one, and a little
MORE_WORK, LITTLE_WORK = 4.0, 1e6
#: what a kernel does there that goes beyond the ends of a buffer
BEYOND = ("oob-read", "oob-write")
#: what it does so, to which buffer, and where in one of which shape
Stray = tuple[str, str, tuple[Any, ...]]
#: what a step leaves, or begins with, by position
Memories = Mapping[int, numpy.ndarray]


class NotFollowed(Exception):
    """Why it is not known what something comes of."""


@dataclass(frozen=True)
class Piece:
    """`size` bytes of an argument, from `into` on, are those from `start` on that a step left at a position."""

    step: Step
    position: int
    start: int
    into: int
    size: int


@dataclass(frozen=True)
class Link:
    """What an argument begins with, as far as earlier steps left it there."""

    pieces: tuple[Piece, ...]

    def taken(self, before: numpy.ndarray, left: Callable[[Piece], numpy.ndarray]) -> numpy.ndarray:
        """The bytes of the argument: those `before` with what the steps `left` of it."""
        taken = before.copy()
        for piece in self.pieces:
            taken[piece.into : piece.into + piece.size] = left(piece)[piece.start : piece.start + piece.size]
        return taken

    def changed(self, before: numpy.ndarray, new: Mapping[tuple[int, int], numpy.ndarray]) -> numpy.ndarray | None:
        """The bytes of the argument where steps, by number and position, left something `new`; None where they are the same."""
        if not any((piece.step.order, piece.position) in new for piece in self.pieces):
            return None
        taken = self.taken(
            before, lambda piece: new.get((piece.step.order, piece.position), piece.step.after[piece.position])
        )
        return taken if (taken != before).any() else None


class Step:
    """The bytes of the arguments `before`, and of those that it wrote `after` it; `places` says where they lie, from where on and how many."""

    def __init__(self, before: dict[int, numpy.ndarray], places: dict[int, tuple[int, int]]) -> None:
        #: its place among all steps
        self.order = 0
        self.before, self.places = before, places
        self.after: dict[int, numpy.ndarray] = {}
        self.links: dict[int, Link] = {}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.before.values(), *self.after.values()))

    def same_otherwise(self, told: independent.Told, seconds: float) -> bool:
        """Whether what it begins with without a link is the same whatever kernels compute."""
        raise NotImplementedError


class Launch(Step):
    """The `number`th launch of a script. Raises `NotFollowed` of arguments that are no simple arrays of their own."""

    def __init__(
        self, number: int, func: Any, arrays: Sequence[Any], fresh: Collection[int], written: Collection[int]
    ) -> None:
        self.number, self.func, self.fresh, self.written = number, func, frozenset(fresh), tuple(written)
        self.cost = 0.0
        #: where the last computation went beyond the ends of buffers
        self.strays: frozenset[Stray] = frozenset()
        own = {n: array for n, array in enumerate(arrays) if isinstance(array, numpy.ndarray)}
        if any(not array.flags.c_contiguous or not array.flags.writeable for array in own.values()):
            raise NotFollowed("an argument is not contiguous")
        several = list(own.values())
        if any(numpy.shares_memory(a, b) for n, a in enumerate(several) for b in several[:n]):
            raise NotFollowed("arguments share memory")
        #: which keeps the memory from being given to something else
        self._arguments = list(arrays)
        super().__init__(
            {n: octets(array).copy() for n, array in own.items()},
            {n: (int(array.__array_interface__["data"][0]), array.nbytes) for n, array in own.items()},
        )

    def done(self, cost: float) -> None:
        """It was computed."""
        self.cost = cost
        self.after = {n: octets(self._arguments[n]).copy() for n in self.written}

    def begin(self, linked: Memories | None = None) -> list[Any]:
        """The arguments as they were, in memory of their own, but for those that are `linked` to something else."""
        from . import twin

        arrays = list(self._arguments)
        for position, before in self.before.items():
            like = arrays[position]
            bytes_ = (linked or {}).get(position, before).copy()
            arrays[position] = bytes_.view(like.dtype).reshape(like.shape)
            if position in self.fresh:
                twin.poison(arrays[position])
        return arrays

    def compute(self, func: Any, only: tuple[int, ...] | None = None, linked: Memories | None = None) -> Memories:
        """What a launch of `func` leaves. Raises `twin.Unsupported`."""
        from . import twin

        arrays = self.begin(linked)
        outcome = twin.run(func, arrays, limit=MORE_WORK * self.cost + LITTLE_WORK, fresh=self.fresh, only=only)
        self.strays = frozenset(
            (one.kind, one.buffer, (one.indices, one.extent)) for one in outcome.happenings if one.kind in BEYOND
        )
        return {position: octets(arrays[position]) for position in self.written}

    def same_otherwise(self, told: independent.Told, seconds: float) -> bool:
        given = (
            n for n, v in enumerate(self._arguments) if v is not None and n not in self.fresh and n not in self.links
        )
        return all(told.is_given(self.number, n, self._given(n), seconds) for n in given)

    def _given(self, position: int) -> Any:
        """An argument as it was."""
        like = self._arguments[position]
        return self.before[position].view(like.dtype).reshape(like.shape) if position in self.before else like


@dataclass(frozen=True)
class Form:
    """A tensor by where it lies in the memory at a position: offset and strides in elements."""

    position: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, tensor: torch.Tensor, position: int = 0) -> Form:
        return cls(position, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())

    def tensor(self, memory: numpy.ndarray) -> torch.Tensor:
        """The tensor in other memory of the same size."""
        storage = torch.from_numpy(memory).untyped_storage()
        return torch.empty(0, dtype=self.dtype).set_(storage, self.offset, self.shape, self.stride)


class Operation(Step):
    """An operator of PyTorch that is about to be run on plain tensors, of which some are to be `written`. Raises `NotFollowed`."""

    def __init__(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], written: Sequence[torch.Tensor]
    ) -> None:
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise NotFollowed("random numbers are drawn")
        self.func = func
        self._storages: list[Any] = []
        self._form = tuple(map(self._formed, args)), {key: self._formed(value) for key, value in kwargs.items()}
        self._written = [self._position(tensor.untyped_storage()) for tensor in written]
        before = {n: memory(storage).copy() for n, storage in enumerate(self._storages)}
        super().__init__(before, {n: _place(storage) for n, storage in enumerate(self._storages)})
        #: which of the results lies where
        self._results: list[tuple[int, int]] = []

    def done(self, result: Any) -> None:
        """It has come to this."""
        self._results = [(n, self._position(one.untyped_storage())) for n, one in enumerate(_tensors(result))]
        self.places = {n: _place(storage) for n, storage in enumerate(self._storages)}
        new = range(len(self.before), len(self._storages))
        self.after = {n: memory(self._storages[n]).copy() for n in (*self._written, *new)}

    def compute(self, linked: Memories) -> Memories:
        """What it leaves with other memory in the place of what is linked. Raises `NotFollowed` where results have another size."""
        begin = {n: linked.get(n, before).copy() for n, before in self.before.items()}
        args, kwargs = _mapped(self._form, lambda form: form.tensor(begin[form.position]))
        with torch.no_grad():
            results = _tensors(self.func(*args, **kwargs))
        left = {n: begin[n] for n in self.after if n in begin}
        for number, position in self._results:
            if position in self.after and position not in begin:
                left[position] = memory(results[number].untyped_storage()).copy()
        if any(left[n].nbytes != self.after[n].nbytes for n in self.after):
            raise NotFollowed("the size of a result depends on values")
        return left

    def same_otherwise(self, told: independent.Told, seconds: float) -> bool:
        args, kwargs = _mapped(
            self._form, lambda form: None if form.position in self.links else form.tensor(self.before[form.position])
        )
        return told.is_run(self.func, args, kwargs, seconds)

    def _formed(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.is_conj() or value.is_neg() or value.is_quantized:
                raise NotFollowed("a tensor does not lie in memory as its values are")
            return Form.of(value, self._position(value.untyped_storage()))
        return type(value)(map(self._formed, value)) if type(value) in (list, tuple) else value

    def _position(self, storage: Any) -> int:
        same = (n for n, one in enumerate(self._storages) if one.data_ptr() == storage.data_ptr())
        found = next(same, None)
        if found is None:
            self._storages.append(storage)
        return len(self._storages) - 1 if found is None else found


class Trail:
    """The steps of a script so far, the last ones if they take much memory."""

    def __init__(self) -> None:
        self._kept: list[Step] = []
        self._count = 0
        #: where what steps left begins and ends, in order and without overlaps
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, step: Step) -> None:
        """One that is about to be computed."""
        self._count += 1
        step.order = self._count
        fresh = step.fresh if isinstance(step, Launch) else ()
        for position, place in step.places.items():
            if position not in fresh and self.led(*place):
                link = self.link(place, step.before[position])
                if link is not None:
                    step.links[position] = link
        self._kept.append(step)

    def done(self, step: Step) -> None:
        """It was computed."""
        if not step.after:
            self._kept.remove(step)
        for position in step.after:
            start, size = step.places[position]
            first = bisect.bisect_left(self._ends, start)
            last = bisect.bisect_right(self._starts, start + size)
            reach = [start, start + size, *self._starts[first:last], *self._ends[first:last]]
            self._starts[first:last], self._ends[first:last] = [min(reach)], [max(reach)]
        while len(self._kept) > MOST_STEPS or sum(one.nbytes for one in self._kept) > MOST_BYTES:
            del self._kept[0]

    def led(self, start: int, size: int) -> bool:
        """Whether any step left something in this memory."""
        at = bisect.bisect_right(self._ends, start)
        return at < len(self._starts) and self._starts[at] < start + size

    def link(self, place: tuple[int, int], now: numpy.ndarray) -> Link | None:
        """What the steps left of what lies in a place `now`; None where they left nothing, or something else has been there since."""
        pieces: list[Piece] = []
        open_ = [(place[0], place[0] + place[1])]
        for step in reversed(self._kept):
            for position in step.after:
                start, size = step.places[position]
                taken, open_ = _cut(open_, start, start + size)
                pieces += [Piece(step, position, a - start, a - place[0], b - a) for a, b in taken]
            if not open_:
                break
        found = Link(tuple(pieces))
        same = bool(pieces) and (found.taken(now, lambda piece: piece.step.after[piece.position]) == now).all()
        return found if same else None


def leading_to(link: Link, told: independent.Told, seconds: float) -> list[Step]:
    """The steps that a link comes of, in their order. Raises `NotFollowed` if anything else that one of them begins with may depend on what
    kernels compute."""
    found: dict[int, Step] = {}
    queue = [piece.step for piece in link.pieces]
    for step in queue:  # which grows
        if step.order in found:
            continue
        found[step.order] = step
        queue += [piece.step for one in step.links.values() for piece in one.pieces]
        if not step.same_otherwise(told, seconds):
            raise NotFollowed("a launch, or what follows it, is given what the script computed from a result")
    return [found[order] for order in sorted(found)]


def _cut(
    ranges: Sequence[tuple[int, int]], start: int, end: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Of some ranges the parts within another one, and those outside of it."""
    inside = [(max(a, start), min(b, end)) for a, b in ranges]
    outside = [part for a, b in ranges for part in ((a, min(b, start)), (max(a, end), b))]
    return [(a, b) for a, b in inside if a < b], [(a, b) for a, b in outside if a < b]


def _mapped(value: Any, to: Callable[[Form], Any]) -> Any:
    if isinstance(value, Form):
        return to(value)
    if isinstance(value, dict):
        return {key: _mapped(one, to) for key, one in value.items()}
    return type(value)(_mapped(one, to) for one in value) if type(value) in (list, tuple) else value


def _tensors(result: Any) -> list[torch.Tensor]:
    several = result if isinstance(result, (list, tuple)) else [result]
    return [one for one in several if isinstance(one, torch.Tensor)]


def _place(storage: Any) -> tuple[int, int]:
    return int(storage.data_ptr()), int(storage.nbytes())


def memory(storage: Any) -> numpy.ndarray:
    """The bytes of a storage, as they lie there."""
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy()  # type: ignore[no-any-return]


def octets(array: numpy.ndarray) -> numpy.ndarray:
    """The bytes of an array, as they lie there."""
    return array.reshape(-1).view(numpy.uint8)
