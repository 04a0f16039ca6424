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
from .deciding import Passed, numbers_compared

#: operators that take the difference of two tensors, and whether they ask for equal ones
DIFFER = {
    "sub": False, "subtract": False, "mse_loss": False, "l1_loss": False, "smooth_l1_loss": False, "dist": False, "eq": True, "ne": True,
    "equal": True, "not_equal": True,
}  # fmt: skip
#: operators that come to one truth or number, of which NaN says no to every bound
ASKS = {"gt", "lt", "ge", "le", "_local_scalar_dense", "is_nonzero"}
#: pairs that are kept, the last ones; each keeps its tensors alive
LIMIT = 32


@dataclass(frozen=True)
class Meeting:
    """Two tensors whose difference was looked at; `exact`: by `==` and the like. `output`: what a launch wrote of them, if one did; `bounds`: the numbers
    that the function around compares with."""

    one: Any
    other: Any
    exact: bool
    through: tuple[Passed, ...]
    sources: str
    output: Any
    bounds: tuple[float, ...]


class Meetings:
    """The pairs of one process; `comparisons` are the watched functions, within which nothing is a meeting of the script's own."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self._kept: collections.deque[Meeting] = collections.deque(maxlen=LIMIT)
        #: the pair of which a NaN was asked about, and by whom
        self.nan: tuple[Meeting, tuple[Passed, ...]] | None = None

    def rest_under(self, decision: Any) -> list[Meeting]:
        """Those made on the way to a decision that still differ, the last first."""
        return [m for m in reversed(self._kept) if decision.rests_on(m.through)]

    def see(self, func: Any, args: Sequence[Any]) -> None:
        """An operator of PyTorch is about to be run on these arguments."""
        tensor = sys.modules["torch"].Tensor
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name in DIFFER and len(args) > 1 and isinstance(args[0], tensor) and isinstance(args[1], tensor):
            self._see(name, *args[:2])
        elif name in ASKS and isinstance(args[0], tensor) and args[0].numel() == 1 and self.nan is None:
            self._see_nan(args[0])

    def see_arrays(self, name: str, inputs: Sequence[Any]) -> None:
        """The same of a function of NumPy."""
        if name in DIFFER and len(inputs) == 2 and all(hasattr(one, "shape") for one in inputs):
            self._see(name, *inputs)

    def _see(self, name: str, one: Any, other: Any) -> None:
        comparisons = self.context.comparisons
        if comparisons.is_within() or tuple(one.shape) != tuple(other.shape) or 0 in one.shape or not one.shape:
            return
        made_up = [comparisons.is_made_up(value) for value in (one, other)]
        if any(made_up):
            comparisons.supposed(one, other)
        elif self._is_asked():
            with comparisons.unwatched(), self.context.guarded("look at what the script subtracts"):
                self._met(plain(one), plain(other), DIFFER[name])

    def _met(self, one: Any, other: Any, exact: bool) -> None:
        wrote = self.context.capture.outputs if self.context.capture is not None else None
        if wrote is None or mismatch.how_far(one, other).rounding:
            return
        writer = wrote.writer(one) or wrote.writer(other)
        known = writer is not None or any(map(self.context.comparisons.derives, (one, other)))
        if not known or any(map(wrote.is_given, (one, other))):
            return  # what is subtracted from a kernel's own input is no error
        users = self.context.comparisons.users()
        through = tuple(Passed.of(frame, line) for frame, line in users)
        said = sources.of_statement(users, self.context.is_user)
        output = writer.tensor() if writer is not None else None
        self._kept.append(Meeting(one, other, exact, through, said, output, _bounds(users)))

    def _see_nan(self, number: Any) -> None:
        """The script asks about one number. If that is NaN since what a launch wrote holds one and what is expected does not, no bound is exceeded."""
        comparisons = self.context.comparisons
        if not self._kept or comparisons.is_within() or comparisons.is_made_up(number) or not self._is_asked():
            return
        with comparisons.unwatched(), self.context.guarded("look at what the script asks about"):
            met = self._kept[-1]
            spoilt = [bool(one.isnan().any()) for one in (met.one, met.other)]
            if met.output is not None and spoilt[0] != spoilt[1] and bool(plain(number).isnan()):
                self.nan = met, tuple(Passed.of(frame, line) for frame, line in comparisons.users())

    def _is_asked(self) -> bool:
        """Whether the script asks, and no package but PyTorch in between."""
        frame = errors.asking(sys._getframe(3), "torch")
        return frame is not None and bool(self.context.is_user(frame.f_code.co_filename))


def plain(value: Any) -> Any:
    """The values of a tensor, of one on the virtual device, too, or of an array, as a tensor of the host."""
    torch = sys.modules["torch"]
    return getattr(value, "payload", value).detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def _bounds(users: Sequence[tuple[types.FrameType, int]]) -> tuple[float, ...]:
    """The numbers that the innermost of the user's functions compares with."""
    return tuple(numbers_compared(*users[-1])) if users else ()
