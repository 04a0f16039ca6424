"""Errors of the script's own checks of values that the virtual device made up: they say nothing about the kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from triage.knowledge.constant import Running, fails_by_itself
from triage.knowledge.judge import COMPARING_ASSERT
from triage.knowledge.locate import ReadSource
from triage.knowledge.match import user_raised
from triage.model import ErrorRecord, Frame

OF_SHAPES = re.compile(r"\.(shape|dtype|device|ndim|stride|size|numel|dim)\b|\blen\(")
#: what Python raises in a line that computes with numbers, when the numbers are not what the author expects
VALUE_ERRORS = ("ValueError", "ZeroDivisionError", "IndexError", "OverflowError", "FloatingPointError")


def about_made_up_values(error: ErrorRecord, facts: Mapping[str, Any], read_source: ReadSource) -> bool:
    """Whether the script's own check of values ended it after launches whose results the virtual device made up.

    Shapes and types are real there, so a check of those stays a fault, and so does one that a kernel's factory makes
    of its arguments before it builds, and whatever fails by constants alone.
    """
    if not facts.get("launches.virtual") or error.phase == "build" or not _may_rest_on_values(error):
        return False
    stack = [_running(frame, read_source) for frame in error.frames if frame.user]
    known = [running for running in stack if running is not None]
    seen = bool(error.frames and error.frames[-1].user) and len(known) == len(stack)
    return not (seen and fails_by_itself(known))


def _may_rest_on_values(error: ErrorRecord) -> bool:
    """Whether the error is one that a check of values ends in, by its type and the line that raised it."""
    if error.on_made_up:
        return True
    if error.type == "SystemExit":
        return bool(error.frames)  # without them nobody saw what ended the process
    last = error.frames[-1] if error.frames else None
    if last is None or not last.user:
        return False
    if error.type == "AssertionError" and user_raised(error):
        checked = COMPARING_ASSERT.match(last.text) is not None and OF_SHAPES.search(last.text) is None
        return checked or not last.text.lstrip().startswith("assert")
    return error.type in VALUE_ERRORS and not user_raised(error)


def _running(frame: Frame, read_source: ReadSource) -> Running | None:
    source = read_source(frame.file)
    columns = (frame.column, frame.end_column) if frame.column and frame.end_column else None
    return Running(source, frame.line, frame.function, columns) if source is not None else None
