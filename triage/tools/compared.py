"""The run that made a comparison, as its step left it: what the tools about a comparison look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triage.experiment.errors import read_events
from triage.experiment.events import Event
from triage.experiment.kernels import kernels_of, record_of
from triage.experiment.twin import Compared, TwinRun, read
from triage.model import KernelRecord
from triage.tools.base import Work
from triage.tools.reruns import TWIN


@dataclass(frozen=True)
class Seen:
    """A run whose comparisons are judged: on the twin, or on a GPU."""

    events: list[Event]
    run: TwinRun
    blob: Callable[[str], bytes]
    twin: bool

    def record(self, kernel: str) -> KernelRecord | None:
        """What a kernel of the run is, None where it could not be recorded."""
        found = kernels_of(self.events).get(kernel)
        return record_of(found, self.blob) if found is not None else None


def comparison_id(about: str) -> str:
    """The number of a comparison in the events of its own run."""
    return about.removeprefix("comparison:").removeprefix(TWIN)


def seen_by(work: Work) -> Seen | None:
    """The run that made the comparison a step is about; None where it is gone."""
    twin = TWIN in work.about
    folder = work.facts.get("twin.dir" if twin else "run.dir")
    directory = work.case.path / str(folder)
    if not folder or not directory.is_dir():
        return None

    def blob(sha: str) -> bytes:
        return (directory.parent / "blobs" / sha).read_bytes() if twin else work.case.get(sha)

    events = read_events(directory)
    status = str(work.facts.get("twin.status" if twin else "run.status"))
    return Seen(events, read(events, status, blob), blob, twin)


def failed_comparison(work: Work, seen: Seen) -> Compared | None:
    """The failed comparison that a step is about."""
    return next((c for c in seen.run.comparisons if not c.matched and c.id == comparison_id(work.about)), None)
