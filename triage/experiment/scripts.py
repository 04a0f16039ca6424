"""Experiments on a changed script: run under the virtual device in a fork of the template, where imports cost nothing.

A candidate passes for the script: its frames name the script's file, and modules beside that file can be imported. It
runs in a copy of the working directory, with HOME, TMPDIR and kernel caches of its own. What it left is kept below the
runner's directory under the hash of all that decides the outcome: no candidate runs twice, also after a kill.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from triage.experiment import process
from triage.experiment.client import GRACE, Client, harness_version
from triage.experiment.errors import Observed, errors_of, greeted, read_events, read_exit
from triage.experiment.events import read_json
from triage.experiment.kernels import kernels_of
from triage.experiment.process import DEFAULT_ARCH, OUTPUT_LIMIT, Subject
from triage.experiment.references import Reference
from triage.experiment.scratch import Copies, Scratch
from triage.model import ErrorRecord

#: memory of all processes of a candidate, in bytes
MEMORY_LIMIT = 4 << 30
#: size of one file that a candidate writes, in bytes
FILE_LIMIT = 256 << 20
#: processes that a candidate may have at once; nvcc alone needs five
PROCESS_LIMIT = 64
#: candidates at once by default, where the machine has as many cores
MOST_JOBS = 8
#: a template, its keeper and the copies need this much longer than the candidate's own limit, in seconds
MARGIN = 10.0 + GRACE
#: what a run leaves that is no evidence
SCRATCH = ("work", "tmp", "home", "tilelang-cache")
#: these ends say nothing about the script
FOREIGN = frozenset({signal.SIGKILL, signal.SIGXFSZ})
#: and of those that say nothing, these come again
LIMITS = frozenset({"memory", "processes"})


@dataclass(frozen=True)
class Candidate:
    """A changed script. `others`: paths and changed texts of modules that it imports. `trace`: record which of its lines ran.

    `twin`: have its launches computed on the CPU (`harness/virtual/computed.py`), None for not; `("seed", n)` in it moves the script's seeds by n.
    """

    source: str
    argv: tuple[str, ...] = ()
    call: str | None = None
    trace: bool = False
    others: tuple[tuple[str, str], ...] = ()
    twin: tuple[tuple[str, Any], ...] | None = None
    #: as in `Subject`
    shadow: tuple[tuple[str, Any], ...] | None = None
    seed: int | None = None
    #: of `Subject`, as JSON
    settings: str = ""
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Shown:
    """What a candidate showed.

    `status`: succeeded, failed, timed_out, or infra_error (`why`; it says nothing about the script). Of `errors` the last
    ended the script, if it failed; what it recovered from comes first. `executed`: the lines that ran, None without a
    trace. `seconds` is wall time without the template's. `arch` is the architecture of the virtual device.
    """

    id: str
    status: str
    executed: frozenset[int] | None
    seconds: float
    directory: Path
    why: str = ""
    arch: str | None = None
    read_errors: Callable[[], Iterable[ErrorRecord]] = field(default=tuple, repr=False, compare=False)

    @functools.cached_property
    def errors(self) -> tuple[ErrorRecord, ...]:
        """Read when somebody asks: who only wants to know whether a candidate passes does not."""
        return tuple(sorted(self.read_errors(), key=lambda error: not (error.recovered or error.stubbed)))


@dataclass(frozen=True)
class Running:
    """A candidate that is being run in `directory`, and until when (`time.monotonic`) it must have ended."""

    id: str
    subject: Subject
    directory: Path
    seconds: float
    deadline: float


#: candidates in their order, those in front still running or not yet looked at
Line = collections.deque[tuple[Candidate, Running | Shown]]


class ScriptRunner(Client):
    """Runs candidates of one script. Use it as a context manager; raises `TemplateError` from `__enter__` and `run`.

    `env` is set for every candidate before it begins; `arch` overrides what the script asks for; `compile` False leaves
    out the device compiler; `cwd` is the working directory that candidates get a copy of. `outputs` are files that the
    caller itself writes there: they are no part of what decides a result. `jobs`: how many candidates `first` runs at once.
    """

    mode = "virtual"

    def __init__(
        self,
        directory: Path,
        script: Path,
        *,
        python: str | None = None,
        env: Mapping[str, str] | None = None,
        arch: str | None = None,
        target: Any = None,
        compile: bool = True,
        cwd: Path | None = None,
        outputs: Sequence[Path] = (),
        memory: int = MEMORY_LIMIT,
        file_limit: int = FILE_LIMIT,
        processes: int = PROCESS_LIMIT,
        jobs: int | None = None,
    ) -> None:
        primed_for = target or {"kind": "cuda", "arch": arch or DEFAULT_ARCH}
        super().__init__(directory, python=python, env=env, script=script, target=primed_for, scripts=True)
        self.path = script.absolute()
        self.arch = arch
        self.compile = compile
        self.cwd = (cwd or Path.cwd()).absolute()
        self.outputs = frozenset(path.absolute() for path in outputs)
        self.limits = {"memory": memory, "output": OUTPUT_LIMIT, "file": file_limit, "processes": processes}
        #: experiments that were run, not answered from disk
        self.count = 0
        self.jobs = jobs or min(_cores(), MOST_JOBS)
        self.copies = Copies(Scratch(self.cwd, ()), directory)
        self._running: dict[str, Running] = {}
        self._given_up: set[str] = set()
        self._seen_arch: str | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        self.look_around()
        return self

    def blob(self, sha: str) -> bytes:
        """What a candidate put aside. Raises `OSError` where it is gone."""
        return (self.directory / "blobs" / sha).read_bytes()

    def look_around(self) -> None:
        """Note the files that candidates get a copy of, or import."""
        without = {self.directory, *self.outputs}
        self.copies.close()
        self.scratch = Scratch.of(self.cwd, without)
        self.copies = Copies(self.scratch, self.directory)
        modules = (path for path in Scratch.of(self.path.parent, without).files if path.suffix == ".py")
        self._around = _fingerprint({*modules, *self.scratch.files})

    def close(self) -> None:
        super().close()
        self.copies.close()
        for name in self._given_up:
            shutil.rmtree(self.directory / name, ignore_errors=True)
        self._given_up.clear()

    @property
    def versions(self) -> str:
        """What the candidates run with, in one line."""
        known = dict(self.ready.get("versions") or {})
        python = str(known.pop("python", "unknown")).split()[0]
        return ", ".join([*(f"{name} {version}" for name, version in sorted(known.items())), f"Python {python}"])

    @property
    def target(self) -> str:
        """The device of the last run, in words."""
        return f"cuda {self._seen_arch or self.arch or DEFAULT_ARCH} (virtual)"

    def run(self, candidate: Candidate, seconds: float = 60.0) -> Shown:
        """What a candidate shows within `seconds`; one that is known is not run again."""
        id = self.identity(candidate)
        return self._known(id, seconds) or self._keep(id, self._execute(id, candidate, seconds))

    def _known(self, id: str, seconds: float) -> Shown | None:
        """What a candidate showed before, if it would show that again."""
        directory = self.directory / id
        if directory.is_dir():
            known = self._read(id, directory)
            if _settled(known, directory, seconds):
                return known
            _discard(directory)
        return None

    def _keep(self, id: str, made: Path) -> Shown:
        """Put a result where it is found again."""
        directory = self.directory / id
        with contextlib.suppress(OSError):  # another triage may have put the same there meanwhile
            made.rename(directory)
            made = directory
        return self._read(id, made)

    def again(self, candidate: Candidate, seconds: float = 60.0) -> Shown:
        """Run a candidate whether or not it is known."""
        id = self.identity(candidate)
        return self._read(id, self._execute(id, candidate, seconds))

    def repeats(self, candidate: Candidate, times: int, seconds: float = 60.0) -> list[Shown]:
        """Run a candidate a few times, whether or not it is known, at once where several may run."""
        if self.jobs < times:
            return [self.again(candidate, seconds) for _ in range(times)]
        id = self.identity(candidate)
        all_of_them = [self._begin(id, candidate, seconds) for _ in range(times)]
        waiting = list(all_of_them)
        while waiting:
            ended = self._ended(waiting[0].deadline)
            waiting = [running for running in waiting if running is not ended]
        return [self._read(id, running.directory) for running in all_of_them]

    def first(
        self, candidates: Iterable[Candidate], wanted: Callable[[Shown], bool], seconds: float = 60.0
    ) -> tuple[Candidate, Shown] | None:
        """The first of some candidates that shows what is wanted, in their order.

        Up to `jobs` run at once, the later ones on the chance that those before them are not wanted. Which is the answer
        does not depend on which ends first.
        """
        line: Line = collections.deque()
        coming = iter(candidates)
        try:
            while True:
                while line:
                    candidate, state = line[0]
                    if isinstance(state, Running):
                        break
                    line.popleft()
                    if wanted(state):
                        return candidate, state
                self._fill(line, coming, seconds)
                if not line:
                    return None
                if isinstance(line[0][1], Running):
                    ended = self._ended(line[0][1].deadline)
                    line = collections.deque(
                        (c, self._keep(ended.id, ended.directory) if state is ended else state) for c, state in line
                    )
        finally:
            for _, state in line:
                if isinstance(state, Running):
                    self._give_up(state)

    def _fill(self, line: Line, coming: Iterator[Candidate], seconds: float) -> None:
        """Have candidates run until no more may, or the first in line is known."""
        while sum(isinstance(state, Running) for _, state in line) < self.jobs:
            candidate = next(coming, None)
            if candidate is None:
                return
            id = self.identity(candidate)
            line.append((candidate, self._known(id, seconds) or self._begin(id, candidate, seconds)))
            if isinstance(line[0][1], Shown):
                return

    def identity(self, candidate: Candidate) -> str:
        """A hash of all that decides what a candidate shows, apart from the limit of time."""
        parts = [
            candidate.source,
            candidate.argv,
            candidate.call,
            candidate.trace,
            candidate.others,
            candidate.twin,
            candidate.shadow,
            candidate.seed,
            candidate.settings,
            candidate.references,
            _fingerprint({Path(reference.file) for reference in candidate.references if reference.file}),
            str(self.path),
            str(self.cwd),
            self.python,
            self.env,
            self.mode,
            self.arch,
            self.compile,
            self.limits,
            self.ready.get("versions"),
            self._around,
            harness_version(),
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]

    # ----------------------------------------------------------------------------------------------------- running

    def _execute(self, id: str, candidate: Candidate, seconds: float) -> Path:
        """Run a candidate in a folder of its own and return it."""
        running = self._begin(id, candidate, seconds)
        while True:
            ended = self._ended(running.deadline)
            if ended is running:
                return running.directory

    def _begin(self, id: str, candidate: Candidate, seconds: float) -> Running:
        """Have a candidate run in a folder of its own."""
        self.count += 1
        directory = Path(tempfile.mkdtemp(prefix=f"{id[:12]}-", dir=self.directory))
        text = directory / "candidate.py"
        text.write_text(candidate.source, encoding="utf-8", newline="")
        others = {path: directory / f"other-{number}.py" for number, (path, _) in enumerate(candidate.others)}
        for path, changed in candidate.others:
            others[path].write_text(changed, encoding="utf-8", newline="")
        self.copies.lend(directory / "work")
        subject = Subject(
            script=self.path,
            argv=candidate.argv,
            cwd=directory / "work",
            mode=self.mode,
            arch=self.arch or DEFAULT_ARCH,
            arch_source="argument" if self.arch else "default",
            call=candidate.call,
            compile=self.compile,
            text=text,
            others=others,
            trace=candidate.trace,
            twin=None if candidate.twin is None else dict(candidate.twin),
            shadow=None if candidate.shadow is None else dict(candidate.shadow),
            seed=candidate.seed,
            settings=json.loads(candidate.settings) if candidate.settings else None,
            references=candidate.references,
        )
        running = Running(id, subject, directory, seconds, time.monotonic() + seconds + MARGIN)
        self._running[directory.name] = running
        self.send(
            {
                "id": directory.name,
                "op": "script",
                "dir": str(directory),
                "subject": subject.spec(directory, self.directory / "blobs"),
                "limits": {"seconds": seconds, **self.limits},
            }
        )
        return running

    def _ended(self, deadline: float) -> Running:
        """Wait until some candidate has ended, and leave of it what is kept."""
        name, path = self.ended(deadline)
        running = self._running.pop(name)
        result = read_json(path)
        try:
            if (result.get("facts") or {}).get("cold") and name not in self._given_up:
                self._execute_cold(running.subject, running.directory, running.seconds)
        finally:
            self.copies.take_back(running.directory / "work")
            for scratch in SCRATCH:
                shutil.rmtree(running.directory / scratch, ignore_errors=True)
        if name in self._given_up:
            self._given_up.discard(name)
            shutil.rmtree(running.directory, ignore_errors=True)
        else:
            _write_json(running.directory / "asked.json", {"seconds": running.seconds})
        return running

    def _give_up(self, running: Running) -> None:
        """End a candidate whose result is not needed; its folder goes when it has ended."""
        self._given_up.add(running.directory.name)
        self.cancel(running.directory.name)

    def _execute_cold(self, subject: Subject, directory: Path, seconds: float) -> None:
        """Run a candidate in a process of its own, because it sets what packages read while they load."""
        private = {"HOME": str(directory / "home"), "TMPDIR": str(directory / "tmp")}
        for folder in private.values():
            Path(folder).mkdir(exist_ok=True)
        shutil.rmtree(directory / "work", ignore_errors=True)
        self.scratch.make(directory / "work")
        (directory / "executed").unlink(missing_ok=True)
        ended = process.run_subject(
            subject,
            directory,
            self.directory / "blobs",
            python=self.python,
            timeout=seconds,
            memory=self.limits["memory"],
            env={**self.env, **private},
        ).exit
        status = "infra_error" if ended.status == "killed" else ended.status
        why = f"the experiment was ended: {ended.reason}" if ended.status == "killed" else ended.error or ""
        _write_json(directory / "result.json", {"status": status, "why": why, "seconds": ended.seconds})

    def _read(self, id: str, directory: Path) -> Shown:
        """What the files of a finished experiment say."""
        result = read_json(directory / "result.json")
        limit = float(read_json(directory / "asked.json").get("seconds") or 0.0)
        events = read_events(directory)
        observed = Observed(
            directory,
            events,
            list(kernels_of(events).values()),
            self.blob,
            script=str(self.path),
            timeout=limit,
            python=self.python,
        )
        status, why = _status(result, read_exit(directory), greeted(events))

        def read_errors() -> Iterable[ErrorRecord]:
            return errors_of(observed, observed.readings()) if status != "infra_error" or greeted(events) else ()

        device: Mapping[str, Any] = next((e for e in reversed(events) if e["type"] == "device"), {})
        self._seen_arch = device.get("arch") or self._seen_arch
        return Shown(
            id=id,
            status=status,
            executed=_executed(directory / "executed"),
            seconds=float(result.get("seconds") or 0.0),
            directory=directory,
            why=why,
            arch=device.get("arch"),
            read_errors=read_errors,
        )


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _status(result: Mapping[str, Any], ended: Mapping[str, Any], greeted: bool) -> tuple[str, str]:
    """The status of an experiment, and why it says nothing about the script where it does not."""
    status = str(result.get("status") or "infra_error")
    number = ended.get("signal")
    if status == "failed" and number in FOREIGN:
        limit = "it wrote more than a file may hold" if number == signal.SIGXFSZ else "it was killed from outside"
        return "infra_error", limit
    if status == "failed" and not greeted:
        return "infra_error", "the harness could not run the script"
    return status, str(result.get("why") or "")


def _settled(known: Shown, directory: Path, seconds: float) -> bool:
    """Whether a stored result would come again: not where triage itself was killed, or more time is given now."""
    if known.status == "timed_out":
        return float(read_json(directory / "asked.json").get("seconds") or 0.0) >= seconds
    if known.status == "infra_error":
        ended = read_exit(directory)
        return ended.get("reason") in LIMITS or ended.get("signal") == signal.SIGXFSZ
    return True


def _executed(path: Path) -> frozenset[int] | None:
    try:
        return frozenset(int(line) for line in path.read_text().split())
    except (OSError, ValueError):
        return None


def _discard(directory: Path) -> None:
    """Take a result out of the way at once; removing its files may be interrupted."""
    with contextlib.suppress(OSError):
        gone = directory.with_name(f"{directory.name}.old-{os.getpid()}")
        directory.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _fingerprint(files: Collection[Path]) -> str:
    """Changes when one of the files does: a module beside the script, a file of the working directory."""
    digest = hashlib.sha256()
    for path in sorted(files):
        with contextlib.suppress(OSError):
            state = path.stat()
            digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data), encoding="utf-8")
