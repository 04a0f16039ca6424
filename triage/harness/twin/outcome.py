"""What a run of the twin gives back, and how it says that it cannot run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Place = dict[str, Any]  # {"file", "line"}

#: element operations that take as long as what a statement costs beside its elements
STATEMENT_COST = 1000


class Unsupported(Exception):
    """The interpreter does not know how to compute this kernel; `reason` is a stable short phrase."""

    def __init__(self, reason: str, place: Place | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place


@dataclass
class Happening:
    """Something that no right kernel does. `indices` are those of the first element, `count` counts elements."""

    #: oob-read, oob-write, uninitialized-read, never-written, collision, division-by-zero, assertion
    kind: str
    buffer: str
    place: Place | None
    indices: tuple[int, ...]
    #: the shape of the buffer
    extent: tuple[int, ...]
    count: int
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    happenings: list[Happening]
    #: element operations
    work: float
    #: statements executed
    statements: int

    @property
    def cost(self) -> float:
        """What counts against a limit."""
        return self.work + STATEMENT_COST * self.statements


class Observer(Protocol):
    def wants(self, block: tuple[int, ...]) -> bool: ...

    def after(
        self,
        statement_path: str,
        place: Place | None,
        buffer_name: str,
        block: tuple[int, ...],
        iteration: tuple[int, ...],
        read: Callable[[], np.ndarray],
    ) -> None: ...
