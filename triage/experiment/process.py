"""Start processes, and outlive them: the only module of triage that does.

`run_command` runs one command under the keeper (`harness/keeper.py`); `run_subject` runs a user's script under
observation (`harness/boot.py`) and returns what it told. Both always return, whatever the command did.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triage.experiment import gpus
from triage.experiment.events import Event, EventReader
from triage.experiment.references import Reference, spec_of

HARNESS = Path(__file__).resolve().parent.parent / "harness"
OUTPUT_LIMIT = 4 << 20
#: of the virtual device, where nobody asks for another
DEFAULT_ARCH = "sm_90a"
#: marks every process of one step in its environment, so that none survives a killed keeper
MARK = "TRIAGE_STEP"
#: how long the keeper may take to end a command after its limits, in seconds
KEEPER_GRACE = 30.0
POLL = 0.1

#: called with the seconds since the start and, where one came, a new event
Progress = Callable[[float, Event | None], None]


@dataclass(frozen=True)
class Exit:
    """How a command ended.

    `status`: succeeded, failed (by itself: exit code or `signal`), timed_out, or killed (`reason`: memory, parent,
    signal, keeper). `seconds` is wall time; `bytes_out` and `cut` count bytes of `stdout` and `stderr`, `cut_at` is
    the offset of the cut in the file. `error` says why a command could not be started.
    """

    status: str
    code: int | None = None
    signal: int | None = None
    seconds: float = 0.0
    reason: str | None = None
    error: str | None = None
    rusage: Mapping[str, float] = field(default_factory=dict)
    bytes_out: Mapping[str, int] = field(default_factory=dict)
    cut: Mapping[str, int] = field(default_factory=dict)
    cut_at: Mapping[str, int | None] = field(default_factory=dict)
    left_behind: int = 0


@dataclass(frozen=True)
class Run:
    """One observed run: how it ended, what it told, and where its outputs lie.

    `torn` counts event lines that could not be read (at most a last one of a process that was killed).
    """

    exit: Exit
    events: tuple[Event, ...]
    stdout: Path
    stderr: Path
    stacks: Path
    directory: Path
    torn: int = 0
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """What to run: a script file or a module, for which device, and what to call in it afterwards.

    `arch_source` is "argument" if the user asked for `arch`, otherwise it is a default that the script may override.
    `text` is a file whose text is run in the place of the script's, `others` are such files for modules, by their path; `trace` has the lines that ran written to `executed`.
    `twin` has the launches on the virtual device computed on the CPU (`harness/virtual/computed.py`); a `seed` in it moves the script's seeds.
    `shadow` has what PyTorch computes computed in float64, too (`harness/shadow.py`), likewise. `seed` is what all random numbers
    begin with that the script does not seed itself; None leaves them to chance. `references` are functions of the user's with which launches are compared.
    """

    script: Path | None = None
    module: str | None = None
    argv: tuple[str, ...] = ()
    cwd: Path | None = None
    mode: str = "virtual"  # virtual | real
    arch: str = DEFAULT_ARCH
    arch_source: str = "default"  # argument | default
    call: str | None = None
    compile: bool = True
    text: Path | None = None
    others: Mapping[str, Path] = field(default_factory=dict)
    trace: bool = False
    twin: Mapping[str, Any] | None = None
    shadow: Mapping[str, Any] | None = None
    seed: int | None = None
    #: switches of one kernel that are set otherwise than the script sets them: `experiment/switch_values.py`
    settings: Mapping[str, Any] | None = None
    references: tuple[Reference, ...] = ()

    def spec(self, directory: Path, blobs: Path) -> dict[str, Any]:
        cwd = self.cwd or Path.cwd()
        return {
            "script": str(self.script) if self.script else None,
            "module": self.module,
            "argv": list(self.argv),
            "cwd": str(cwd.absolute()),
            "dir": str(directory.absolute()),
            "blobs": str(blobs.absolute()),
            "mode": self.mode,
            "arch": self.arch,
            "arch_source": self.arch_source,
            "target": {"kind": "cuda", "arch": self.arch},
            "call": self.call,
            "compile": self.compile,
            **({"text": str(self.text.absolute())} if self.text else {}),
            **({"others": {path: str(file.absolute()) for path, file in self.others.items()}} if self.others else {}),
            **({"trace": True} if self.trace else {}),
            **({"twin": dict(self.twin)} if self.twin is not None else {}),
            **({"shadow": dict(self.shadow)} if self.shadow is not None else {}),
            **({"seed": self.seed} if self.seed is not None else {}),
            **({"settings": dict(self.settings)} if self.settings else {}),
            **spec_of(self.references),
        }


def run_subject(
    subject: Subject,
    directory: Path,
    blobs: Path,
    *,
    python: str | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    output_limit: int = OUTPUT_LIMIT,
    env: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run a script under observation, in the step directory `directory` (made if missing).

    `timeout` in seconds, `memory` in bytes of resident memory of all its processes, `output_limit` in bytes kept of
    the head and of the tail of each output. Raises `OSError` only if `directory` cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    blobs.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("events-*.jsonl"):
        stale.unlink()
    spec = directory / "subject.json"
    spec.write_text(json.dumps(subject.spec(directory, blobs)), encoding="utf-8")
    command = (python or sys.executable, str(HARNESS / "boot.py"), str(spec.absolute()))
    reader = EventReader(directory)

    def watch(seconds: float) -> None:
        fresh = reader.read()
        if progress is not None:
            for event in fresh:
                progress(seconds, event)
            if not fresh:
                progress(seconds, None)

    used = gpus.visible({**os.environ, **(env or {})}) if subject.mode == "real" else []
    with gpus.held(used):
        ended = run_command(
            command,
            directory,
            cwd=subject.cwd,
            env=env,
            timeout=timeout,
            memory=memory,
            output_limit=output_limit,
            tick=watch,
        )
    watch(ended.seconds)
    events, torn = reader.finish()
    return Run(
        ended,
        tuple(events),
        directory / "stdout",
        directory / "stderr",
        directory / "stacks.txt",
        directory,
        torn,
        command,
    )


def run_command(
    command: Sequence[str],
    directory: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    output_limit: int = OUTPUT_LIMIT,
    tick: Callable[[float], None] | None = None,
) -> Exit:
    """Run a command under the keeper; its outputs are `directory/stdout` and `directory/stderr`.

    `env` is added to the environment of this process. `tick` is called about ten times a second. Always returns;
    an exception (an interrupt, or one that `tick` raises) ends the command first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex
    spec = {
        "command": list(command),
        "cwd": str(cwd.absolute()) if cwd else None,
        "env": {**(env or {}), MARK: mark},
        "dir": str(directory.absolute()),
        "timeout": timeout,
        "memory": memory,
        "output_limit": output_limit,
    }
    path = directory / "keeper.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    result = directory / "exit.json"
    result.unlink(missing_ok=True)
    start = time.monotonic()
    with open(directory / "keeper.log", "wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-I", str(HARNESS / "keeper.py"), str(path.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait(keeper, start, timeout, tick)
    finally:
        _end(keeper, mark)
    return _read_exit(result, time.monotonic() - start)


def start_service(
    command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a process that serves on the descriptors it inherits and ends itself when they close or triage dies.

    Both its outputs go to the file `log`. Raises `OSError` if it cannot be started.
    """
    with open(log, "wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(env or {})},
            pass_fds=pass_fds,
            start_new_session=True,
        )


def _wait(
    keeper: subprocess.Popen[bytes], start: float, timeout: float | None, tick: Callable[[float], None] | None
) -> None:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(POLL)
            return
        seconds = time.monotonic() - start
        if tick is not None:
            tick(seconds)
        if timeout is not None and seconds > timeout + KEEPER_GRACE:  # a stopped keeper enforces nothing
            return


def _end(keeper: subprocess.Popen[bytes], mark: str) -> None:
    """End the keeper (the end of its standard input tells it to) and whatever still carries the mark."""
    assert keeper.stdin is not None
    with contextlib.suppress(OSError):
        keeper.stdin.close()
    try:
        keeper.wait(5.0)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
    if keeper.returncode != 0:
        for _ in range(50):
            pids = list(_marked(mark))
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                break
            time.sleep(0.02)


def _marked(mark: str) -> Iterator[int]:
    """Processes with `MARK=mark` in the environment they started with; none where there is no /proc."""
    needle = f"{MARK}={mark}".encode()
    try:
        entries = os.listdir("/proc")
    except OSError:
        return
    for entry in entries:
        if entry.isdigit():
            try:
                if needle in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    yield int(entry)
            except OSError:
                continue


def _read_exit(path: Path, seconds: float) -> Exit:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        names = Exit.__dataclass_fields__
        return Exit(**{name: value for name, value in data.items() if name in names})
    except (OSError, ValueError, TypeError):
        return Exit("killed", reason="keeper", seconds=round(seconds, 6))
