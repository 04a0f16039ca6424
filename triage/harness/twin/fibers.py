"""Parts of a kernel that wait for each other: roles of a warp-specialized block, and the blocks of a grid.

Each part is a thread of Python, of which one runs at any time; it gives way only where the kernel waits, and goes on when
what it waits for has come. So every order that the kernel's own barriers enforce is kept, and no other is added.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from .outcome import Unsupported


class _Stopped(BaseException):
    """Raised in the parts that are left when one of them failed."""


class Fiber:
    """One part. `waits_for` says whether it can go on."""

    def __init__(self, work: Callable[[], None], switch: Switch) -> None:
        self.switch = switch
        self.waits_for: Callable[[], bool] | None = None
        self.done = False
        self.failure: BaseException | None = None
        self.turn = threading.Semaphore(0)
        self._work = work
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.turn.acquire()
        try:
            if not self.switch.stopping:
                with np.errstate(all="ignore"):  # numpy keeps it for each thread
                    self._work()
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the thread that runs the kernel
            self.failure = error
        finally:
            self.done = True
            self.switch.back.release()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Give way until `ready()`."""
        while not ready():
            self.waits_for = ready
            self.switch.back.release()
            self.turn.acquire()
            if self.switch.stopping:
                raise _Stopped
        self.waits_for = None


class Switch:
    """Lets fibers run in turn until all are done."""

    def __init__(self) -> None:
        self.back = threading.Semaphore(0)
        self.stopping = False
        self.fibers: list[Fiber] = []

    def run(self, works: Sequence[Callable[[Fiber], None]]) -> None:
        """Raises what a fiber raised, or `Unsupported` when all that are left wait for ever."""
        for work in works:
            fiber = Fiber(lambda: None, self)
            fiber._work = _bound(work, fiber)
            self.fibers.append(fiber)
            fiber.thread.start()
        try:
            while left := [fiber for fiber in self.fibers if not fiber.done]:
                able = next((f for f in left if f.waits_for is None or f.waits_for()), None)
                if able is None:
                    raise Unsupported("barriers at which all that is left waits")
                self._let(able)
                if able.failure is not None:
                    raise able.failure
        finally:
            self._stop()

    def _let(self, fiber: Fiber) -> None:
        fiber.turn.release()
        self.back.acquire()

    def _stop(self) -> None:
        self.stopping = True
        for fiber in self.fibers:
            if not fiber.done:
                self._let(fiber)
            fiber.thread.join()


def _bound(work: Callable[[Fiber], None], fiber: Fiber) -> Callable[[], None]:
    return lambda: work(fiber)


class Barrier:
    """An mbarrier: a phase ends when `count` arrivals have come."""

    def __init__(self, count: int) -> None:
        self.count = self.pending = count
        self.phase = 0

    def arrive(self, arrivals: int) -> None:
        self.pending -= arrivals
        while self.pending <= 0:
            self.pending += self.count
            self.phase += 1

    def passed(self, parity: int) -> bool:
        """Whether the last phase of this parity is over; the one before the first counts as over."""
        return (self.phase & 1) != (parity & 1)


class Meeting:
    """A place that all of a number of parties reach before any goes on."""

    def __init__(self) -> None:
        self.arrived = 0
        self.generation = 0

    def join(self, fiber: Fiber, parties: int, last: Callable[[], None] | None = None, weight: int = 1) -> None:
        """Wait for the others; the one that comes last does what is to be done once."""
        self.arrived += weight
        if self.arrived >= parties:
            if last is not None:
                last()
            self.arrived = 0
            self.generation += 1
            return
        generation = self.generation
        fiber.wait(lambda: self.generation != generation)
