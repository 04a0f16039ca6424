"""Records that a log tells again and again: a loop that goes on, every worker of a pool, a log of logs. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

from triage.model import ErrorRecord, WarningRecord


def told_once(errors: Iterable[ErrorRecord]) -> tuple[ErrorRecord, ...]:
    """The errors in their order without those that say what an earlier one says, and differ only in where they were printed."""
    first: dict[Hashable, ErrorRecord] = {}
    for error in errors:
        first.setdefault(tuple(_said(error)), error)
    return tuple(first.values())


def warned_once(warnings: Iterable[WarningRecord]) -> tuple[WarningRecord, ...]:
    """As `told_once`."""
    first: dict[Hashable, WarningRecord] = {}
    for warning in warnings:
        first.setdefault(replace(warning, quote=None), warning)
    return tuple(first.values())


def _said(error: ErrorRecord) -> Iterator[Hashable]:
    """The error and all errors behind it, without their places in the text. A chain may be deep: no recursion."""
    waiting = [error]
    while waiting:
        one = waiting.pop()
        yield replace(one, quote=None, causes=()), len(one.causes)
        waiting += one.causes
