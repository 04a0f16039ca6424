"""The client of the template process (`harness/serve.py`): starts it, asks it for experiments, ends it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from triage.experiment import process
from triage.experiment.process import HARNESS

#: importing torch and tilelang on a cold disk takes this long at worst, in seconds
START_LIMIT = 120.0
#: how much longer than its limit the template may take to say that a worker ended
GRACE = 5.0


class TemplateError(Exception):
    """The template could not be started or has gone; the text says why."""


class Client:
    """A running template. Use it as a context manager; raises `TemplateError` from `__enter__` and `ask`.

    `env` is added to the environment, `target` is what it is primed with, `scripts` whether it will run scripts, too.
    """

    def __init__(
        self,
        directory: Path,
        *,
        python: str | None = None,
        env: Mapping[str, str] | None = None,
        script: Path | None = None,
        target: Any = None,
        scripts: bool = False,
    ) -> None:
        self.directory = directory.absolute()
        self.python = python or sys.executable
        self.env = dict(env or {})
        self.script = script
        self.primed_for = target
        self.scripts = scripts
        self.ready: Mapping[str, Any] = {}
        self._buffer = b""
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        spec = {
            "socket": theirs.fileno(),
            "dir": str(self.directory),
            "script": str(self.script.absolute()) if self.script else None,
            "target": self.primed_for,
            "scripts": self.scripts,
        }
        path = self.directory / "template.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        command = [self.python, str(HARNESS / "serve.py"), str(path)]
        try:
            log = self.directory / "template.log"
            self._process = process.start_service(command, log, env=self.env, pass_fds=[theirs.fileno()])
        except OSError as error:
            ours.close()
            raise TemplateError(f"{self.python} cannot be started: {error}") from None
        finally:
            theirs.close()
        self._socket = ours
        try:
            self.ready = self._receive("ready", time.monotonic() + START_LIMIT)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the template and its workers; may be called twice."""
        if self._socket is not None:
            self._socket.close()  # the template ends its workers and itself when the socket closes
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def ask(self, request: Mapping[str, Any], deadline: float) -> Path:
        """Have an experiment run; the answer is the path of its `result.json`. `deadline` is one of `time.monotonic`."""
        self.send(request)
        while True:
            id, result = self.ended(deadline)
            if id == request["id"]:
                return result

    def send(self, request: Mapping[str, Any]) -> None:
        """Have an experiment begin; several may be under way, told apart by their ids."""
        self._tell({"type": "run", **request})

    def cancel(self, id: str) -> None:
        """End an experiment; `ended` still tells of it."""
        self._tell({"type": "cancel", "id": id})

    def ended(self, deadline: float) -> tuple[str, Path]:
        """Wait for the next experiment that ends: its id, and the path of its `result.json`."""
        try:
            message = self._receive("done", deadline)
        except TemplateError:
            self.close()  # a late answer must not be taken for that of another experiment
            raise
        return message["id"], Path(message["result"])

    def _tell(self, message: Mapping[str, Any]) -> None:
        if self._socket is None:
            raise TemplateError("the template is not running")
        try:
            self._socket.sendall((json.dumps(message) + "\n").encode())
        except OSError as error:
            raise TemplateError(f"the template has gone: {error}") from None

    def _receive(self, wanted: str, deadline: float) -> dict[str, Any]:
        """The next message of a type; others before it are passed over."""
        assert self._socket is not None
        while True:
            while b"\n" in self._buffer:
                line, self._buffer = self._buffer.split(b"\n", 1)
                message = json.loads(line)
                if message["type"] == "broken":
                    raise TemplateError(message["why"])
                if message["type"] == wanted:
                    return dict(message)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise TemplateError(f"the template did not answer in time (waiting for {wanted!r})")
            data = b""
            with contextlib.suppress(OSError):
                data = self._socket.recv(1 << 16)
            if not data:
                raise TemplateError(f"the template ended: {self._last_words()}")
            self._buffer += data

    def _last_words(self) -> str:
        try:
            lines = (self.directory / "template.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"


@cache
def harness_version() -> str:
    """A hash of the code that runs experiments and reads what they left."""
    digest = hashlib.sha256()
    for path in sorted(HARNESS.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
