"""Lowering experiments on a saved PrimFunc, done by the template process (`harness/serve.py`).

One `Template` serves one subject. `run` sends one experiment and waits for it. An experiment that was run before is
answered from memory or from its folder `directory/<id>`, because lowering is deterministic (which every search checks on
the unchanged program). A folder gets that name when its result is whole, so a kill leaves either a result or nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triage.experiment.client import GRACE, Client, TemplateError, harness_version
from triage.model import ErrorRecord, from_json

#: one lowering; the slowest of 112 real kernels takes 8 s with everything
RUN_LIMIT = 30.0
#: what a worker leaves, and what it was asked for; a folder with the second has the first whole
RESULT, ASKED = "result.json", "asked.json"
#: resident memory of one worker, in bytes, with what it shares with the template (about half a gigabyte)
MEMORY_LIMIT = 4 << 30


@dataclass(frozen=True)
class Program:
    """A saved PrimFunc and how the script compiled it. `target` None means the default target of the environment."""

    primfunc: Path
    target: Any = None
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    backend: str | None = None


@dataclass(frozen=True)
class Change:
    """Take a unit away, or give it `value`."""

    unit: str
    value: Any = None

    def as_json(self) -> dict[str, Any]:
        return {"unit": self.unit} if self.value is None else {"unit": self.unit, "value": self.value}


@dataclass(frozen=True)
class Result:
    """What an experiment showed.

    `status`: succeeded, failed (`error` and the pass it was in), timed_out, or infra_error (`why`). `seconds` is the
    wall time of the worker. `stderr` is what it printed there.
    """

    id: str
    status: str
    error: ErrorRecord | None = None
    pass_name: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    why: str = ""
    directory: Path | None = None

    @property
    def stderr(self) -> str:
        try:
            return (self.directory / "stderr").read_text(errors="replace") if self.directory else ""
        except OSError:
            return ""


class Template(Client):
    """A running template. Use it as a context manager; raises `TemplateError` from `__enter__` and `run`."""

    def __init__(
        self,
        directory: Path,
        *,
        python: str | None = None,
        env: Mapping[str, str] | None = None,
        script: Path | None = None,
        target: Any = None,
    ) -> None:
        super().__init__(directory, python=python, env=env, script=script, target=target)
        #: experiments that were run, not answered
        self.count = 0
        self._memory: dict[str, Result] = {}

    def run(
        self, program: Program, op: str = "lower", changes: Sequence[Change] = (), seconds: float = RUN_LIMIT
    ) -> Result:
        """Run one experiment; `op` is units, layouts, lower, codegen or device. `seconds` limits the worker's wall time."""
        id = self._identity(program, op, changes)
        known = self._memory.get(id) or self._stored(id, seconds)
        if known is None:
            known = self._kept(id, self._run(id, program, op, changes, seconds), seconds)
        self._memory[id] = known
        return known

    def _stored(self, id: str, seconds: float) -> Result | None:
        """A result on disk that would come again; one of a time-out only where no more time is given now."""
        directory = self.directory / id
        if not (directory / ASKED).is_file():
            return None
        try:
            known = read_result(directory / RESULT)
            limit = float(json.loads((directory / ASKED).read_text(encoding="utf-8"))["seconds"])
        except (TemplateError, OSError, ValueError, KeyError):
            return None
        return known if known.status in ("succeeded", "failed") or limit >= seconds else None

    def _kept(self, id: str, result: Result, seconds: float) -> Result:
        """Put a result where it is found again, unless it says nothing about the program."""
        if result.directory is None or result.status == "infra_error":
            return result
        shutil.rmtree(result.directory / "tmp", ignore_errors=True)
        (result.directory / ASKED).write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
        directory = self.directory / id
        shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # another triage may have put the same there meanwhile
            return dataclasses.replace(result, directory=result.directory.rename(directory))
        return result

    def again(self, program: Program, op: str, changes: Sequence[Change] = (), seconds: float = RUN_LIMIT) -> Result:
        """Run an experiment whether or not it was run before."""
        return self._run(self._identity(program, op, changes), program, op, changes, seconds)

    def trace(self, program: Program, op: str, seconds: float = RUN_LIMIT) -> Result:
        """Run the unchanged program; of a failure keep `before.tir` and `passes.txt` in the result's directory."""
        return self._run(self._identity(program, op, ()), program, op, (), seconds, trace=True)

    def _identity(self, program: Program, op: str, changes: Sequence[Change]) -> str:
        surroundings = [self.python, self.env, self.ready.get("versions"), harness_version()]
        try:
            return identity(program, op, changes, surroundings)
        except OSError as error:
            raise TemplateError(f"the saved kernel cannot be read: {error}") from None

    def _run(
        self, id: str, program: Program, op: str, changes: Sequence[Change], seconds: float, trace: bool = False
    ) -> Result:
        self.count += 1
        directory = Path(tempfile.mkdtemp(prefix=f"{self.count:04d}-{id[:8]}-", dir=self.directory))
        request = {
            "id": id,
            "op": op,
            "primfunc": str(program.primfunc.absolute()),
            "target": program.target,
            "pass_configs": dict(program.pass_configs),
            "backend": program.backend,
            "changes": [change.as_json() for change in changes],
            "limits": {"seconds": seconds, "memory": MEMORY_LIMIT},
            "dir": str(directory),
            "trace": trace,
        }
        return read_result(self.ask(request, time.monotonic() + seconds + GRACE))


def identity(program: Program, op: str, changes: Sequence[Change], surroundings: Sequence[Any] = ()) -> str:
    """A hash of what decides the outcome of an experiment; `surroundings` are interpreter and versions. Raises `OSError`."""
    parts = [
        hashlib.sha256(program.primfunc.read_bytes()).hexdigest(),
        op,
        program.target,
        dict(program.pass_configs),
        program.backend,
        sorted(json.dumps(change.as_json()) for change in changes),
        *surroundings,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def read_result(path: Path) -> Result:
    """Read a worker's `result.json`. Raises `TemplateError` if it is not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        error = from_json(ErrorRecord, data["error"]) if data.get("error") else None
        if error is not None and error.kind != "signal":
            error = dataclasses.replace(error, pass_name=data.get("pass"))
        return Result(
            data["id"],
            data["status"],
            error,
            data.get("pass"),
            data.get("facts") or {},
            data.get("seconds") or 0.0,
            data.get("why") or "",
            path.parent,
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TemplateError(f"{path}: not the result of an experiment: {error}") from None
