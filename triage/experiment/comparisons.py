"""The failed comparisons of a run, from its events. Pure but for the blobs it asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triage.experiment.kernels import blob_of
from triage.model import Comparison, from_json


def comparison_of(
    error: Mapping[str, Any], events: Sequence[Mapping[str, Any]], blob: Callable[[str], bytes]
) -> Comparison | None:
    """The failed comparison that an `error` event names; None where it names none that can be read."""
    identity = error.get("comparison")
    if identity is None:
        return None
    event = next(
        (e for e in events if e["type"] == "compare" and (e.get("id"), e.get("pid")) == (identity, error.get("pid"))), None
    )  # fmt: skip
    summary = event.get("summary") if event else None
    if event is None or not isinstance(summary, dict):
        return None
    sha = blob_of(summary) if set(summary) == {"blob"} else None
    told = json.loads(blob(sha)) if sha else summary
    bounds = told.get("tolerance") or {}
    tolerance = " ".join(f"{name}={value}" for name, value in sorted(bounds.items()))
    try:
        return from_json(Comparison, {**told, "function": event.get("function"), "tolerance": tolerance})
    except (TypeError, ValueError):
        return None
