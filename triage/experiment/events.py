"""Read what an observed process wrote: `events-<pid>.jsonl`, tolerant of torn and foreign lines."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class EventReader:
    """Follows `events-*.jsonl` of a step directory; reads whole lines only, each once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._offsets: dict[Path, int] = {}
        self._events: list[Event] = []
        self._torn = 0

    def read(self) -> list[Event]:
        """The events that came since the last call."""
        fresh: list[Event] = []
        for path in sorted(self.directory.glob("events-*.jsonl")):
            offset = self._offsets.get(path, 0)
            try:
                with open(path, "rb") as file:
                    file.seek(offset)
                    data = file.read()
            except OSError:
                continue
            whole = data[: data.rfind(b"\n") + 1]
            self._offsets[path] = offset + len(whole)
            fresh += self._decode(whole)
        self._events += fresh
        return fresh

    def finish(self) -> tuple[list[Event], int]:
        """All events in the order of their time, and the number of lines that could not be read."""
        self.read()
        for path, offset in self._offsets.items():
            with contextlib.suppress(OSError):
                self._torn += path.stat().st_size > offset
        return final(sorted(self._events, key=lambda e: (e["t"], e["seq"]))), self._torn

    def _decode(self, lines: bytes) -> list[Event]:
        events = []
        for line in lines.split(b"\n")[:-1]:
            try:
                event = json.loads(line)
            except ValueError:
                self._torn += 1
                continue
            if isinstance(event, dict) and isinstance(event.get("type"), str) and _ordered(event):
                events.append(event)
            else:
                self._torn += 1
        return events


def final(events: list[Event]) -> list[Event]:
    """Without the errors that a later event of the same process supersedes (seen again where they ended the script)."""
    gone = {(e.get("pid"), id) for e in events if e["type"] == "error" for id in e.get("supersedes") or ()}
    return [e for e in events if e["type"] != "error" or (e.get("pid"), e.get("id")) not in gone]


def _ordered(event: Event) -> bool:
    return isinstance(event.get("t"), (int, float)) and isinstance(event.get("seq"), int)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object that a run left; empty where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
