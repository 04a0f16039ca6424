"""Whether rounding explains a failed comparison of a run, with what the run tells of the launch that wrote the result. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triage.experiment.events import Event
from triage.experiment.tolerances import Judged, judge
from triage.model import KernelRecord, Mismatch, Output

#: what no right kernel does, and after which its values are no matter of rounding
UNSOUND = frozenset({"uninitialized-read", "never-written", "collision"})


def explained(
    mismatch: Mismatch | None,
    written: Sequence[Output],
    events: Sequence[Event],
    happenings: Sequence[Mapping[str, Any]],
    record: Callable[[str], KernelRecord | None],
    twin: bool,
) -> Judged:
    """Judge a mismatch of what launches wrote; `happenings` are those of the run, `record` knows its kernels."""
    if mismatch is None:
        return Judged(None, "the shapes differ")
    by = written[0] if written else None
    launch: Mapping[str, Any] = next(
        (e for e in events if e["type"] == "twin" and by and e.get("launch") == by.launch), {}
    )
    kinds = {str(h.get("kind")) for h in happenings if by and h.get("kernel") == by.kernel}
    return judge(
        mismatch,
        record(by.kernel) if by else None,
        by.argument if by else "",
        launch.get("magnitudes") or {},
        tensor_cores=not twin,
        sound=not kinds & UNSOUND,
    )
