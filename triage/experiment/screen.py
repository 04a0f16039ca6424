"""Edits that are looked at in one run of a script, many times as fast as by a run each (`harness/screening.py`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from triage.experiment.errors import read_events
from triage.experiment.repairs.edit import Edit
from triage.experiment.repairs.parts import Statements
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.twin import whole

#: where more edits than this agree, the script is asked about each of them
MANY = 4


@dataclass
class Screened:
    """Which edits make what a script compares agree, and which do not; of the others nothing is known. `seen` of `count` were looked at, those in
    `unclear` in vain: most of them make no sense. With those in `straying` a kernel goes beyond the ends of a buffer, where it did not before."""

    count: int
    known: dict[Edit, bool] = field(default_factory=dict)
    seen: int = 0
    unclear: set[Edit] = field(default_factory=set)
    straying: set[Edit] = field(default_factory=set)

    @property
    def all(self) -> bool:
        return self.seen == self.count


def screened(
    runner: ScriptRunner, candidate: Candidate, edits: Sequence[Edit], seconds: float, limit: float
) -> Screened:  # fmt: skip
    """Look at edits of a script in twin mode.

    The edits are looked at in their order for `seconds`, as many at once as the runner may run; `limit` is how long the script itself may
    take. What agrees here was compared once, with the inputs of one launch: whoever accuses a statement of it runs the script.
    """
    statements = Statements(candidate.source)
    parts = ((number, statements.parts(edit)) for number, edit in enumerate(edits) if not edit.file)
    asked: list[tuple[int, Any]] = [(number, some) for number, some in parts if some]
    until = time.monotonic() + seconds
    found = Screened(len(asked))

    def look(asked: Sequence[Any], into: Screened, to_the_end: bool) -> None:
        left = max(until - time.monotonic(), 0.0)
        shards = [asked[start :: runner.jobs] for start in range(runner.jobs)]
        wanted = [{"edits": shard, "seconds": left, "limit": limit, "whole": to_the_end} for shard in shards if shard]
        copies = [replace(candidate, twin=(*(candidate.twin or ()), ("screen", one))) for one in wanted]
        runner.first(copies, lambda shown: _look(shown, runner, edits, into), limit + left)

    look(asked, found, to_the_end=False)
    if not found.seen:
        look(asked, found, to_the_end=True)
        return found
    agreeing = [one for one in asked if found.known.get(edits[one[0]])]
    if len(agreeing) > MANY:  # what measures an error by itself says whether it is small enough only when it is asked
        again = Screened(len(agreeing))
        look(agreeing, again, to_the_end=True)
        found.known |= {edit: agrees for edit, agrees in again.known.items() if not agrees}
    return found


def _look(shown: Shown, runner: ScriptRunner, edits: Sequence[Edit], found: Screened) -> bool:
    """Take in what one run says; False, so that the others are looked at, too."""
    for event in read_events(shown.directory):
        if event["type"] == "screen":
            found.seen += event["seen"]
            told = {word: whole(event[word], runner.blob) for word in ("agrees", "strays", "differs", "unknown")}
            found.straying.update(edits[number] for number in told["strays"])
            found.unclear.update(edits[number] for number in told["unknown"])
            found.known.update({edits[number]: True for number in told["agrees"]})
            found.known.update({edits[number]: False for number in told["differs"]})
    return False
