"""Of many similar cases the default run takes a few; the slow run takes all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(count: int, cases: Iterable[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, all but each `count`th marked as slow. A tuple is a case of several values."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=[pytest.mark.slow] if number % count else []))
    return found
