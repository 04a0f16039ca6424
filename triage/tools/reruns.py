"""What the tools that run the script again share: the comparison they are about, and a runner on the device that was observed."""

from __future__ import annotations

from pathlib import Path

from triage.experiment.errors import read_events
from triage.experiment.events import Event
from triage.experiment.gpu_scripts import GpuRunner
from triage.experiment.reruns import Said, Which, said, which
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.tools.base import Work

#: what the random numbers of a rerun begin with, where the script does not seed them itself
SEED = 1729
#: a rerun may take so many times as long as the observed run, and at least so many seconds
PATIENCE, SHORTEST = 10.0, 30.0
#: how a step names comparisons that were seen on the twin
TWIN = "twin-"


def on_device(work: Work) -> bool:
    """Whether the comparison was made with values that a device computed: a GPU, or the host for a kernel that is compiled for it."""
    made_up = work.facts.get("comparison.verdict") == "virtual"
    return TWIN not in work.about and ("cuda" in work.capabilities or not made_up)


def candidate(work: Work) -> Candidate | None:
    """The script as it ran, to run again with the same random numbers; None where it cannot be read."""
    options = work.options
    source = work.script_source
    if source is None:
        return None
    twin = None if on_device(work) else ()
    return Candidate(source, options.argv, options.call, twin=twin, seed=SEED, references=work.references)


def runner(work: Work) -> ScriptRunner:
    """Runs the script on the machine's GPU, or where there is none on the virtual device. To be used as a context manager."""
    if not on_device(work) or "cuda" not in work.capabilities:
        return work.script_runner()
    options = work.options  # what one step compiled the next need not
    env = {"TILELANG_CACHE_DIR": str(work.case.path / "kernels"), **work.environment}
    return GpuRunner(
        work.dir / "candidates", Path(options.script), python=options.python or None, env=env,
        arch=options.arch, cwd=Path(options.cwd),
    )  # fmt: skip


def limit(work: Work) -> float:
    """Seconds that one rerun may take."""
    usual = max(SHORTEST, PATIENCE * float(work.facts.get("run.seconds") or 0.0))
    return min(usual, max(work.seconds, 1.0))


def observed(work: Work) -> list[Event]:
    """The events of the observed run; none where it is gone."""
    folder = work.facts.get("run.dir")
    return read_events(work.case.path / str(folder)) if folder else []


def wanted(work: Work, events: list[Event]) -> Which | None:
    """The comparison that the step is about. `events` are those of a run that has it: of the observed one, or, for a comparison
    that only the twin made, of a rerun in twin mode."""
    return which(events, work.about.removeprefix("comparison:").removeprefix(TWIN))


def result(work: Work, runner: ScriptRunner, shown: Shown) -> Said | None:
    """What the comparison said in a rerun; None where nobody knows which one it is."""
    events = read_events(shown.directory)
    known = wanted(work, events if TWIN in work.about else observed(work))
    return None if known is None else said(events, known, shown.status, runner.blob)
