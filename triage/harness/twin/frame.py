"""The state of a running kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .fibers import Fiber
from .memory import Storage
from .outcome import STATEMENT_COST, Happening, Observer, Place, Unsupported

#: how many times the work must exceed its limit to be given up before it is reached; parts of it may differ
HOPELESS = 3
TOO_MUCH = "more work than the limit"

#: some lanes: a mask, or all, or none
Lanes = np.ndarray | bool


@dataclass(frozen=True)
class Statement:
    """What is known of a statement before it runs."""

    path: str
    place: Place | None


class Frame:
    """`variables` by slot, `memory` by number; `mask` says which lanes are active (None: all)."""

    __slots__ = (
        "at",
        "barriers",
        "block",
        "expanded",
        "extents",
        "fiber",
        "found",
        "gone",
        "left",
        "limit",
        "mask",
        "memory",
        "observer",
        "observing",
        "only",
        "statements",
        "variables",
        "work",
    )  # fmt: skip

    def __init__(self, slots: int, memories: int, limit: float, observer: Observer | None) -> None:
        self.variables: list[Any] = [None] * slots
        self.memory: list[Storage] = [None] * memories  # type: ignore[list-item]
        self.mask: np.ndarray | None = None
        #: extents of the axes
        self.extents: list[int] = []
        #: private memory that has lanes of parallel loops
        self.expanded: list[Storage] = []
        #: lanes that are done with this iteration of the innermost loop, and those that left it
        self.gone: Lanes = False
        self.left: Lanes = False
        self.block: tuple[int, ...] = ()
        #: the only block that is to run; None for all
        self.only: tuple[int, ...] | None = None
        #: the part of the kernel that this frame belongs to, where parts wait for each other
        self.fiber: Fiber | None = None
        #: barriers by memory and index, and the meetings of threads by name; those of all fibers of a block
        self.barriers: dict[Any, Any] = {}
        self.at = Statement("", None)
        self.observer, self.observing = observer, False
        self.found: dict[tuple[Any, ...], Happening] = {}
        self.work, self.limit, self.statements = 0.0, limit, 0

    def fork(self, own_memory: bool) -> Frame:
        """The frame of a part that runs beside others. What happens is told in one place."""
        other = Frame(0, 0, self.limit, self.observer)
        for name in Frame.__slots__:
            setattr(other, name, getattr(self, name))
        other.variables, other.extents, other.expanded = list(self.variables), list(self.extents), []
        if own_memory:
            other.memory, other.barriers = list(self.memory), {}
        other.work = other.statements = 0
        return other

    def absorb(self, other: Frame) -> None:
        """Count what a part did."""
        self.work += other.work
        self.statements += other.statements

    def spend(self, elements: float) -> None:
        self.work += elements
        if self.work + STATEMENT_COST * self.statements > self.limit:
            raise Unsupported(TOO_MUCH, self.at.place)

    def foresee(self, done: float) -> None:
        """Give up early where the work so far, for this part of all of it, says that the limit will not do."""
        if self.work + STATEMENT_COST * self.statements > HOPELESS * done * self.limit:
            raise Unsupported(TOO_MUCH, self.at.place)

    def record(self, kind: str, buffer: str, extent: Any, indices: Any, count: int, **detail: Any) -> None:
        key = (kind, buffer, self.at.path)
        known = self.found.get(key)
        if known is not None:
            known.count += count
            return
        first = tuple(int(index) for index in indices)
        detail["block"] = self.block
        self.found[key] = Happening(kind, buffer, self.at.place, first, tuple(extent), count, detail)
