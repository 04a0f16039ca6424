"""What `triage bisect` prints of one kernel: a table of the sets of switches, and the nearest values that work."""

from __future__ import annotations

from collections.abc import Sequence

from triage.experiment.switches import worded
from triage.model import Neighbour, SwitchSet
from triage.report import words
from triage.report.text import defuse, one_line

HEAD = ("switch", "now", "set to", "result", "passes that it governs")


def render(title: str, how: str, sets: Sequence[SwitchSet], neighbours: Sequence[Neighbour]) -> str:
    """Plain text that ends with a newline. `title` names the kernel and its fault, `how` sums up the search."""
    lines = [one_line(title), f"  {one_line(how)}"]
    if sets:
        lines += ["", *_table(sets), ""]
        lines += [f"  {n}. {words.LEVEL[one.level]}; {one_line(one.blame)}" for n, one in enumerate(sets, start=1)]
    if neighbours:
        lines += ["", "  nearest values that work, everything else unchanged:"]
        lines += [f"    {one_line(worded(one.what, one.was, one.now))}" for one in neighbours]
    return defuse("".join(f"{line}\n" for line in lines))


def _table(sets: Sequence[SwitchSet]) -> list[str]:
    """One row for each setting; what belongs to one set is needed together."""
    rows: list[tuple[str, ...]] = [("", *HEAD)]
    for number, one in enumerate(sets, start=1):
        for place, setting in enumerate(one.settings):
            first = place == 0
            passes = (" ".join(one.passes) or "none known") if first else ""
            cells = (setting.what, setting.was, setting.now, words.EFFECT[setting.effect], passes)
            rows.append((f"{number}." if first else "and", *(one_line(cell) for cell in cells)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
