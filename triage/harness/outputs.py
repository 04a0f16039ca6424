"""Which launch wrote a tensor: launches are remembered by the memory of what they wrote.

On a device nothing is kept alive: memory that is not given back would change what later launches find in theirs. On the twin the last
outputs are, so that what a script casts at once (`kernel(x).float()`) is still known as a copy of one.
"""

from __future__ import annotations

import collections
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import mismatch

#: tensors that are remembered
LIMIT = 256
#: outputs that are kept alive on the twin
KEPT = 8
#: outputs whose values are looked at, to find the one that a tensor is a copy of
COPIES = 4


@dataclass(frozen=True)
class Written:
    """A tensor that a launch wrote; `memory` is the address of its storage."""

    launch: str
    kernel: str
    name: str
    argument: str
    memory: int
    tensor: Callable[[], Any]
    #: of the tensor that the launch wrote; one that is compared may be a copy in a wider type
    dtype: Any


def returned(result: Any) -> list[Any]:
    """What the call of a kernel gave back, one by one."""
    return list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]


class Outputs:
    def __init__(self, keep: bool = False) -> None:
        self._written: list[Written] = []
        self._kept: collections.deque[Any] = collections.deque(maxlen=KEPT if keep else 0)
        self._given: collections.deque[Any] = collections.deque(maxlen=LIMIT)

    def note(
        self, launch: str, kernel: str, name: str, stored: Iterable[tuple[str, Any]], given: Iterable[Any] = ()
    ) -> None:
        """A launch of a kernel has returned, and these of its arguments and results, by name, it wrote; others it was only given."""
        self._given.extend(weakref.ref(tensor) for tensor in given if hasattr(tensor, "untyped_storage"))
        for argument, tensor in stored:
            if hasattr(tensor, "untyped_storage"):
                memory = tensor.untyped_storage().data_ptr()
                self._kept.append(tensor)
                self._written.append(Written(launch, kernel, name, argument, memory, weakref.ref(tensor), tensor.dtype))
        del self._written[:-LIMIT]

    def writer(self, tensor: Any) -> Written | None:
        """The last launch that wrote the memory of a tensor; else one whose output it is a copy of, cast or moved."""
        memory = tensor.untyped_storage().data_ptr()
        same = next((written for written, _ in self._alive() if written.memory == memory), None)
        return same or next(self._copied(tensor), None)

    def is_given(self, tensor: Any) -> bool:
        """Whether a launch only read the memory of a tensor."""
        memory = tensor.untyped_storage().data_ptr()
        alive = (given() for given in self._given)
        return any(one is not None and one.untyped_storage().data_ptr() == memory for one in alive)

    def _alive(self) -> Iterator[tuple[Written, Any]]:
        for written in reversed(self._written):
            tensor = written.tensor()
            if tensor is not None:
                yield written, tensor

    def _copied(self, tensor: Any) -> Iterator[Written]:
        alike = ((w, output) for w, output in self._alive() if output.numel() == tensor.numel() > 1)
        for written, output in itertools.islice(alike, COPIES):
            if mismatch.same_values(output.detach(), tensor.detach()):
                yield written
