"""A stage-by-stage reference of the user's (`--stages module:function`): the values that tiles of a block should have, in the order of the kernel.

The function is called with the inputs of a launch, and with `block` if it takes that, and yields pairs: the name of an on-chip buffer, and the values that it should
hold at that point. The CPU twin computes the block once more and remembers every write to these buffers. A stage is **met** by the first write behind
the one that met the stage before it after which its buffer holds the expected values. A `stage` event tells of each, up to the first one that no write meets.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from . import mismatch, outputs, places, references
from .references import Unusable

#: launches of a kernel that are looked at, blocks of each, writes of a block and stages of a function
LAUNCHES, BLOCKS, WRITES, STAGES = 2, 6, 20_000, 2_000
#: bytes of all values of a block that are remembered
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Write:
    """A statement at `place` has written a buffer, which now holds `values`; `iteration`: of the loops around it."""

    buffer: str
    place: dict[str, Any] | None
    iteration: tuple[int, ...]
    values: numpy.ndarray


class Watch:
    """Remembers the writes of one block to some buffers; an `Observer` of the twin."""

    def __init__(self, block: tuple[int, ...], names: frozenset[str]) -> None:
        self.block, self.names = block, names
        self.writes: list[Write] = []
        self._bytes = 0

    def wants(self, block: tuple[int, ...]) -> bool:
        return block == self.block

    def after(
        self, path: str, place: Any, buffer: str, block: tuple[int, ...], iteration: tuple[int, ...], read: Callable[[], numpy.ndarray],
    ) -> None:  # fmt: skip
        if buffer not in self.names or len(self.writes) >= WRITES or self._bytes >= MOST_BYTES:
            return
        values = read()
        self._bytes += values.nbytes
        self.writes.append(Write(buffer, place, iteration, values))


def met(writes: Sequence[Write], stages: Sequence[tuple[str, Any]], agrees: Callable[[Write, Any], bool]) -> list[int]:
    """For each stage in turn the number of the write that meets it; shorter than `stages` where one is not met."""
    found: list[int] = []
    for name, expected in stages:
        start = found[-1] + 1 if found else 0
        number = next(
            (n for n in range(start, len(writes)) if writes[n].buffer == name and agrees(writes[n], expected)), None
        )
        if number is None:
            break
        found.append(number)
    return found


def suspects(writes: Sequence[Write], stages: Sequence[tuple[str, Any]], start: int) -> list[Write]:
    """Of the first of some stages, which no write meets, the writes to its buffer from number `start` on: in the same round of the loops around, and before the
    buffer of a later stage is written."""
    name = stages[0][0]
    behind = [(n, write) for n, write in enumerate(writes) if n >= start and write.buffer == name]
    if not behind:
        return []
    first = behind[0][0]
    other = next((later for later, _ in stages if later != name), None)
    end = next((n for n in range(first, len(writes)) if writes[n].buffer == other), len(writes))
    left = [write for n, write in behind if n < end and write.iteration == writes[first].iteration]
    same = len(list(itertools.takewhile(lambda stage: stage[0] == name, stages)))
    return left[:1] if len(left) == same else left  # then each of these stages has its own write


class Stages:
    """Watches the launches of one process on the twin."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.given = [references.Reference(**one) for one in context.settings["stages"]]
        self.tolerances: dict[str, list[float]] = context.settings["tolerances"]
        self._counts: dict[str, int] = {}
        self._local = threading.local()

    def watch_launches(self, kernel_class: type) -> None:
        original = kernel_class.__call__

        @functools.wraps(original)
        def __call__(kernel: Any, *args: Any, **options: Any) -> Any:
            id = kernel.__dict__.get("_triage_id")
            before = None
            if id is not None and not getattr(self._local, "inside", False) and self._counts.get(id, 0) < LAUNCHES:
                with self.context.guarded("copy the inputs of a launch for its stages"):
                    before = _copied(args)
            result = original(kernel, *args, **options)
            if before is not None and self.context.computed is not None:
                self._counts[id] = self._counts.get(id, 0) + 1
                with self.context.guarded("compare the tiles of a launch with its stages"):
                    self._look(kernel.__dict__, before, result)
            return result

        kernel_class.__call__ = __call__  # type: ignore[method-assign]

    def _look(self, state: dict[str, Any], args: list[Any], result: Any) -> None:
        kernel = references.described(state)
        for given in self.given:
            if given.kernel is not None and not kernel.is_called(given.kernel):
                continue
            try:
                self._compare(given, kernel, state, args, result)
            except Unusable as why:
                self._tell(
                    given,
                    kernel,
                    what="unusable",
                    why=str(why),
                    beside=why.beside,
                    at=why.at or places.of_code(given.call),
                )

    def _compare(
        self,
        given: references.Reference,
        kernel: references.Kernel,
        state: dict[str, Any],
        args: list[Any],
        result: Any,
    ) -> None:
        """Hold the writes of some blocks against the stages, until one is not met."""
        values = dict(zip(kernel.inputs, args, strict=True))
        form = given.arguments(kernel.forms(values), kernel.name or kernel.symbol, **_options(given, (0,)))
        told: list[dict[str, Any]] = []
        blocks = _some(_blocks(state["_triage_func"]))
        for block in blocks:
            stages = list(self._yielded(given, list(form.values()), block))
            writes = _written(state, args, result, block, frozenset(name for name, _ in stages))
            for name, _ in stages:
                if not any(write.buffer == name for write in writes):
                    known = ", ".join(sorted(_on_chip(state["_triage_func"])))
                    raise Unusable(
                        f"no statement of {kernel.name} writes {name!r}",
                        f"; its tiles are {known}",
                        places.of_code(given.call),
                    )
            found = met(writes, stages, lambda write, expected: self._agrees(kernel, write, expected))
            told = [
                {"number": n, "buffer": writes[at].buffer, "at": writes[at].place, "met": True}
                for n, at in enumerate(found)
            ]
            if len(found) < len(stages):
                told.append(self._missed(kernel, writes, stages, found))
                break
        for one in told:
            self._tell(given, kernel, what="stage", block=list(block), blocks=len(blocks), **one)

    def _missed(
        self, kernel: references.Kernel, writes: list[Write], stages: list[tuple[str, Any]], found: list[int]
    ) -> dict[str, Any]:
        name, expected = stages[len(found)]
        start = found[-1] + 1 if found else 0
        left = suspects(writes, stages[len(found) :], start)
        nearest = min(left, key=lambda write: self._wrong(kernel, write, expected), default=None)
        wrong = 0 if nearest is None else self._wrong(kernel, nearest, expected)
        lines: list[Any] = []
        for write in left:
            if write.place not in lines:
                lines.append(write.place)
        stated = {name for name, _ in stages}
        return {
            "number": len(found), "buffer": name, "met": False, "suspects": lines, "wrong": wrong, "total": int(torch.as_tensor(expected).numel()),
            "stated": sorted(stated), "iteration": list(left[0].iteration) if left else [],
        }  # fmt: skip

    def _yielded(
        self, given: references.Reference, inputs: list[Any], block: tuple[int, ...]
    ) -> Iterator[tuple[str, Any]]:
        """What the function tells of a block. Raises `Unusable`."""
        from . import comparisons

        at = places.of_code(given.call)
        self._local.inside = True
        try:
            with self.context.comparisons.unwatched():
                told = given.call(*[_copy(value) for value in inputs], **_options(given, block))
                pairs = list(itertools.islice(told, STAGES)) if told is not None else []
        except TypeError as error:
            raise Unusable(
                "it does not yield pairs of a buffer's name and its values", references.text_of(error), at
            ) from error
        except (Exception, SystemExit) as error:
            where = references.raised_at(error, given.file, self.context.is_user)
            raise Unusable(f"it ends with {type(error).__name__}", references.text_of(error), where or at) from error
        finally:
            self._local.inside = False
        if not pairs:
            raise Unusable("it yields nothing", "", at)
        for pair in pairs:
            name, values = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
            tensor = comparisons.tensor_of(values) if isinstance(name, str) else None
            if tensor is None:
                raise Unusable("it yields something else than pairs of a buffer's name and its values", "", at)
            yield str(name), tensor

    def _agrees(self, kernel: references.Kernel, write: Write, expected: torch.Tensor) -> bool:
        return self._wrong(kernel, write, expected) == 0

    def _wrong(self, kernel: references.Kernel, write: Write, expected: torch.Tensor) -> int:
        """How many elements of a tile are not as expected; of a tile at the end of a tensor only its beginning is expected."""
        actual = _tensor(write.values)
        if actual.numel() == expected.numel():
            actual = actual.reshape(expected.shape)
        elif actual.dim() == expected.dim() and all(a >= e for a, e in zip(actual.shape, expected.shape, strict=True)):
            actual = actual[tuple(slice(size) for size in expected.shape)]
        else:
            shapes = f"{tuple(expected.shape)} for {write.buffer}, which has {tuple(actual.shape)}"
            raise Unusable(f"it yields a tensor of shape {shapes}")
        if not actual.is_floating_point():
            return int((actual != expected.to(actual.dtype)).sum())
        bounds = references.tolerance(kernel, self.tolerances, actual, expected)
        return int(mismatch.wrong_elements(actual.double(), expected.double(), *bounds, True).sum())

    def _tell(self, given: references.Reference, kernel: references.Kernel, **told: Any) -> None:
        self.context.emit("stage", reference=given.text, kernel=kernel.id, name=kernel.name or kernel.symbol, **told)


def _options(given: references.Reference, block: tuple[int, ...]) -> dict[str, Any]:
    """What the function is called with besides the inputs."""
    return {"block": block} if "block" in inspect.signature(given.call).parameters else {}


def _some(blocks: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The first block, the last one, and some between."""
    if len(blocks) <= BLOCKS:
        return blocks
    step = (len(blocks) - 1) / (BLOCKS - 1)
    return [blocks[round(n * step)] for n in range(BLOCKS)]


def _blocks(func: Any) -> list[tuple[int, ...]]:
    from tvm import tirx

    from . import segments, units
    from .twin import launches

    extents = [extent for _, extent in segments.blocks_of((s for _, _, s in units.walk(func.body)), tirx)]
    if not extents or None in extents:
        raise Unusable("how many blocks the kernel has depends on its arguments")
    return list(launches.in_order([int(extent or 0) for extent in extents]))


def _on_chip(func: Any) -> set[str]:
    from . import record

    return {str(b["name"]) for b in record.Recorder(func).buffers if b["scope"] != "global"}


def _written(
    state: dict[str, Any], args: list[Any], result: Any, block: tuple[int, ...], names: frozenset[str]
) -> list[Write]:
    """The writes of one block, computed once more."""
    from . import comparisons, twin
    from .virtual.computed import as_arrays, copied
    from .virtual.signature import signature

    func = state["_triage_func"]
    known = signature(func, state["_triage_outputs"])
    returned = outputs.returned(result)[: len(state["_triage_outputs"])]
    fresh = [torch.empty_like(comparisons.tensor_of(value)) for value in returned]
    arrays = as_arrays(known, copied(args), fresh)
    for index in known.outputs:
        twin.poison(arrays[index])
    watch = Watch(block, names)
    twin.run(func, arrays, observer=watch, fresh=frozenset(known.outputs), only=block)
    return watch.writes


def _copied(args: Sequence[Any]) -> list[Any]:
    from . import comparisons

    with torch.no_grad():
        return [comparisons.tensor_of(a).clone() if isinstance(a, torch.Tensor) else a for a in args]


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _tensor(values: numpy.ndarray) -> torch.Tensor:
    if values.dtype.kind == "V" or values.dtype.name.startswith(("bfloat", "float8", "float4", "int4", "uint4")):
        values = values.astype(numpy.float32)
    return torch.from_numpy(numpy.ascontiguousarray(values))
