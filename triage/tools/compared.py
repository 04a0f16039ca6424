"""The run that made a comparison, as its step left it: what the tools about a comparison look at."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from triage.experiment.errors import read_events
from triage.experiment.events import Event
from triage.experiment.kernels import kernels_of, record_of
from triage.experiment.twin import Compared, TwinRun, read
from triage.lints import collisions
from triage.lints.program import Program
from triage.model import KernelRecord, Place
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
        return self.records.get(kernel)

    @cached_property
    def records(self) -> dict[str, KernelRecord]:
        """The kernels of the run by their ids, as far as they could be recorded."""
        found = {id: record_of(kernel, self.blob) for id, kernel in kernels_of(self.events).items()}
        return {id: record for id, record in found.items() if record is not None}


def comparison_id(about: str) -> str:
    """The number of a comparison in the events of its own run."""
    return about.removeprefix("comparison:").removeprefix(TWIN)


def seen_by(work: Work) -> Seen | None:
    """The run that made the comparison a step is about; None where it is gone."""
    return _left_by(work, TWIN in work.about)


def twin_run(work: Work) -> Seen | None:
    """The run of the unchanged script on the twin; None where there was none, or it is gone."""
    return _left_by(work, twin=True)


def observed_run(work: Work) -> Seen | None:
    """The run of the script that was observed; None where it is gone."""
    return _left_by(work, twin=False)


def _left_by(work: Work, twin: bool) -> Seen | None:
    folder = work.facts.get("twin.dir" if twin else "run.dir")
    directory = work.case.path / str(folder)
    if not folder or not directory.is_dir():
        return None

    def blob(sha: str) -> bytes:
        return (directory.parent / "blobs" / sha).read_bytes() if twin else work.case.get(sha)

    events = read_events(directory)
    status = str(work.facts.get("twin.status" if twin else "run.status"))
    return Seen(events, read(events, status, blob), blob, twin)


def order_decides(seen: Seen, kernels: Collection[str] = ()) -> tuple[Place, str] | None:
    """Where one of these kernels, or of all, reads what another iteration or block writes, and from which buffer: what a device and the
    twin compute otherwise then says nothing of the compiler."""
    records = (record for id, record in seen.records.items() if not kernels or id in kernels)
    return next((found for record in records if (found := collisions.order_decides(Program(record)))), None)


def failed_comparison(work: Work, seen: Seen) -> Compared | None:
    """The failed comparison that a step is about."""
    return next((c for c in seen.run.comparisons if not c.matched and c.id == comparison_id(work.about)), None)
