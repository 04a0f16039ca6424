"""The observed run that the virtual device belongs to: one per process."""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

from .. import errors

_context: Any = None
_comparisons = itertools.count(1)
_seen: set[tuple[Any, ...]] = set()


def open_(context: Any) -> None:
    global _context
    _context = context


def is_open() -> bool:
    return _context is not None


def context() -> Any:
    """The `Context` of the run. Raises `RuntimeError` before the device is installed."""
    if _context is None:
        raise RuntimeError("the virtual device is not installed")
    return _context


def sees(func: Any, args: tuple[Any, ...]) -> None:
    """An operator of PyTorch is about to run: the script may compare by its own arithmetic."""
    if _context is not None and _context.comparisons is not None:
        _context.comparisons.meetings.see(func, args)


def screening() -> Any:
    """What looks at changes of kernels in this run and follows what comes of results; None if nothing does, or not here."""
    if _context is None or _context.screening is None or _context.comparisons is None:
        return None
    return _context.screening if _context.screening.follows and not _context.comparisons.is_within() else None


def sees_arrays(name: str, inputs: tuple[Any, ...]) -> None:
    """As `sees`, of a function of NumPy."""
    if _context is not None and _context.comparisons is not None:
        _context.comparisons.meetings.see_arrays(name, inputs)


def is_asked_by_user() -> bool:
    """Whether the script itself calls what the harness has replaced."""
    frame = errors.asking(sys._getframe(2))
    return frame is not None and _context is not None and bool(_context.is_user(frame.f_code.co_filename))


def supposes(operands: tuple[Any, ...]) -> None:
    """Some of the operands of a comparison are made up."""
    if _context is not None and _context.comparisons is not None:
        _context.comparisons.supposed(*operands[:2])


def virtual(what: str) -> None:
    """Say once that `what` was answered with made-up values."""
    if _context is not None:
        _context.virtual(what)


def comparison(function: str, summary: str, frame: FrameType | None = None) -> None:
    """Record a comparison that made-up values took part in: it neither matched nor failed."""
    if _context is None:
        return
    at = {"file": frame.f_code.co_filename, "line": frame.f_lineno} if frame is not None else _context.user_frame()
    if at is not None and not _context.is_user(at["file"]):
        at = _context.user_frame()
    if not first_time("compare", function, summary, at):
        return
    if _context.comparisons is not None:
        _context.comparisons.was_made_up()
    _context.emit(
        "compare", id=f"c{next(_comparisons)}", function=function, at=at, virtual=True, matched=None, summary=summary
    )


def first_time(*key: Any) -> bool:
    """Whether this is said for the first time: what a loop repeats is recorded once for each place."""
    frozen = tuple(repr(part) for part in key)
    if frozen in _seen:
        return False
    _seen.add(frozen)
    return True
