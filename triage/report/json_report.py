"""The report as JSON text, and back."""

from __future__ import annotations

import json
from typing import cast

from triage.report.contract import Report
from triage.report.schema import problems


class ReportError(ValueError):
    """The text is not a report that this version can draw; the message says why, in one line."""


def render(report: Report) -> str:
    """The report as JSON: keys in the order of the contract, pure ASCII, one trailing newline."""
    return json.dumps(report, indent=1, allow_nan=False) + "\n"


def read(text: str) -> Report:
    """Parse the text of a report.json. Raises `ReportError` where it is none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"not JSON: {error}") from None
    found = problems(data)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ReportError(f"not a report of triage: {found[0]}{more}")
    return cast(Report, data)
