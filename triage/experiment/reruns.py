"""What a comparison of the script said when the script was run again. Pure but for the blobs it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triage.experiment.comparisons import is_by_function, summary_of
from triage.experiment.events import Event


@dataclass(frozen=True)
class Which:
    """A comparison, as it is found again in another run: what compares, where, and how many failed there before it."""

    function: str
    file: str
    line: int
    order: int = 0


@dataclass(frozen=True)
class Said:
    """`verdict`: mismatched, matched, virtual (the values were made up), absent (the run did not come there). `digest` is the
    same for the same set of wrong elements, `wrong` their number; `reference64` as the harness told it (`shadow.py`)."""

    verdict: str
    digest: str = ""
    wrong: int | None = None
    reference64: Mapping[str, Any] = field(default_factory=dict)


def which(events: Sequence[Event], id: str) -> Which | None:
    """The comparison of this id; None where the events do not have it, or not its place."""
    event = next((e for e in events if e["type"] == "compare" and e.get("id") == id), None)
    place = event.get("at") if event else None
    if event is None or not place:
        return None
    there = [e for e in _at(events, event.get("function"), place) if e.get("matched") is False]
    order = next((number for number, e in enumerate(there) if e is event), 0)
    return Which(str(event.get("function")), str(place["file"]), int(place["line"]), order)


def said(events: Sequence[Event], wanted: Which, ended: str, blob: Callable[[str], bytes]) -> Said:
    """What the same comparison said in another run, which ended so (`succeeded`, …)."""
    there = _at(events, wanted.function, {"file": wanted.file, "line": wanted.line})
    failed = [e for e in there if e.get("matched") is False]
    if wanted.order < len(failed):
        return _told("mismatched", failed[wanted.order], blob)
    agreed = next((e for e in there if e.get("matched") is True), None)
    if agreed is not None:
        return _told("matched", agreed, blob)
    if there and not failed:
        return Said("virtual")
    own = not is_by_function(wanted.function) or bool(failed)  # of what agrees at one place, only the first is told
    return Said("matched" if own and ended == "succeeded" else "absent")


def _at(events: Sequence[Event], function: Any, place: Mapping[str, Any]) -> list[Event]:
    """The comparisons of one function at one place; of any, where there is none of it: made-up values are compared by other names."""
    there = [e for e in events if e["type"] == "compare" and e.get("at") == place]
    return [e for e in there if e.get("function") == function] or there


def _told(verdict: str, event: Event, blob: Callable[[str], bytes]) -> Said:
    summary = summary_of(event, blob)
    pattern = summary.get("pattern") or {}
    return Said(verdict, str(pattern.get("digest") or ""), pattern.get("wrong"), summary.get("reference64") or {})
