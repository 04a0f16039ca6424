"""Errors of the script's own checks of values that the virtual device made up: they say nothing about the kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from triage.knowledge.judge import COMPARING_ASSERT
from triage.knowledge.match import user_raised
from triage.model import ErrorRecord

OF_SHAPES = re.compile(r"\.(shape|dtype|device|ndim|stride|size|numel|dim)\b|\blen\(")
#: what Python raises in a line that computes with numbers, when the numbers are not what the author expects
VALUE_ERRORS = ("ValueError", "ZeroDivisionError", "IndexError", "OverflowError", "FloatingPointError")


def about_made_up_values(error: ErrorRecord, facts: Mapping[str, Any]) -> bool:
    """Whether the script's own check of values ended it after launches whose results the virtual device made up.

    Shapes and types are real there, so a check of those stays a fault, and so does one that a kernel's factory makes
    of its arguments before it builds.
    """
    if not facts.get("launches.virtual") or error.phase == "build":
        return False
    if error.type == "SystemExit":
        return True
    last = error.frames[-1] if error.frames else None
    if last is None or not last.user:
        return False
    if error.type == "AssertionError" and user_raised(error):
        checked = COMPARING_ASSERT.match(last.text) is not None and OF_SHAPES.search(last.text) is None
        return checked or not last.text.lstrip().startswith("assert")
    return error.type in VALUE_ERRORS and not user_raised(error)
