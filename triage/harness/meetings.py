"""Pairs of tensors that the script subtracted or compared itself, kept from the moment at which it did.

At the end of a script the names of a helper that has returned are gone, and those of a loop hold its last round:

    def bad(got, want):                      # `got - want` is evaluated here
        return ((got - want).abs() > 1e-3).sum().item()

So on the twin PyTorch's own dispatch tells of each pair, one of which a launch wrote, that is further apart than rounding explains.
"""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import errors, mismatch, sources
from .deciding import Passed

#: operators that take the difference of two tensors, and whether they ask for equal ones
DIFFER = {
    "sub": False,
    "mse_loss": False,
    "l1_loss": False,
    "smooth_l1_loss": False,
    "dist": False,
    "eq": True,
    "ne": True,
}
#: pairs that are kept, the last ones; each keeps its tensors alive
LIMIT = 32


@dataclass(frozen=True)
class Meeting:
    """Two tensors whose difference was looked at; `exact`: by `==` and the like. `launch`: what can be computed again of it, if anything."""

    one: Any
    other: Any
    exact: bool
    through: tuple[Passed, ...]
    sources: str
    launch: Any


class Meetings:
    """The pairs of one process; `comparisons` are the watched functions, within which nothing is a meeting of the script's own."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self._kept: collections.deque[Meeting] = collections.deque(maxlen=LIMIT)

    def rest_under(self, decision: Any) -> list[Meeting]:
        """Those made on the way to a decision that still differ, the last first."""
        return [m for m in reversed(self._kept) if decision.rests_on(m.through)]

    def see(self, func: Any, args: Sequence[Any]) -> None:
        """An operator is about to be run on these arguments."""
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        comparisons = self.context.comparisons
        if name not in DIFFER or len(args) < 2 or comparisons is None or comparisons.is_within():
            return
        tensor = sys.modules["torch"].Tensor
        one, other = args[:2]
        if not isinstance(one, tensor) or not isinstance(other, tensor) or one.shape != other.shape or one.numel() < 2:
            return
        if any(map(comparisons.is_made_up, (one, other))) or not self._is_asked():
            return
        with comparisons.unwatched(), self.context.guarded("look at what the script subtracts"):
            self._met(getattr(one, "payload", one).detach(), getattr(other, "payload", other).detach(), DIFFER[name])

    def _met(self, one: Any, other: Any, exact: bool) -> None:
        screening = self.context.screening
        if screening is not None and screening.scrambled:
            screening.meets(one)
            screening.meets(other)
            return
        wrote = self.context.capture.outputs if self.context.capture is not None else None
        if wrote is None or mismatch.how_far(one, other).rounding:
            return
        if not any(map(wrote.writer, (one, other))) or any(map(wrote.is_given, (one, other))):
            return  # what is subtracted from a kernel's own input is no error
        users = self.context.comparisons.users()
        through = tuple(Passed.of(frame, line) for frame, line in users)
        said = sources.of_statement(users, self.context.is_user)
        launch = screening.differs() if screening is not None else None
        self._kept.append(Meeting(one, other, exact, through, said, launch))

    def _is_asked(self) -> bool:
        """Whether the script asks, and no package but PyTorch in between."""
        frame = sys._getframe(3)
        while frame.f_back is not None and (errors.is_harness(frame.f_code.co_filename) or _is_torch(frame)):
            frame = frame.f_back
        return bool(self.context.is_user(frame.f_code.co_filename))


def _is_torch(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "torch"
