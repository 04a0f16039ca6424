"""One experiment with a changed script: a keeper forked from the template, and the script in a fork of that.

The request (`serve.py` passes it on) is

    {"type": "run", "id", "op": "script", "dir": path, "subject": SPEC2 with "text": path of the candidate,
     "env": {name: value or null},
     "limits": {"seconds", "memory": bytes, "output": bytes, "file": bytes, "processes"}}

The script runs as under `boot.py`, except that torch and tilelang are in memory when it imports them. What it leaves in
`dir` is what a step of a cold run leaves. `result.json` has the keeper's verdict as its fact, or `cold`: a script that sets
variables which are read while packages load, before it imports them, needs a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import os
import random
import resource
import signal
import socket
import struct
import sys
import tempfile
import threading
import warnings
from dataclasses import dataclass
from typing import Any, NoReturn

from . import boot, keeper
from .loaded import Loaded

#: between SIGUSR1 (stacks), SIGTERM and SIGKILL, in seconds: a candidate has nothing to put in order
GRACE = 0.2
#: the file in which the script's process says that it needs to start cold
COLD = "cold"
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_SET_DUMPABLE = 4
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
#: how an experiment ended, from how its keeper says the script did
STATUS = {"succeeded": "succeeded", "failed": "failed", "timed_out": "timed_out", "killed": "infra_error"}


@dataclass
class Fork:
    """The script's process, as the keeper wants to know it."""

    pid: int
    returncode: int | None = None


class Trial(keeper.Keeper):
    """Keeps a script that is forked instead of started."""

    def __init__(self, request: dict[str, Any], loaded: Loaded, preset: list[str]) -> None:
        limits = request["limits"]
        spec = {"dir": request["dir"], "timeout": limits.get("seconds"), "memory": limits.get("memory"), "grace": GRACE}
        super().__init__(spec | {"output_limit": limits.get("output")})
        self.request = request
        self.loaded = loaded
        self.preset = preset
        self.processes: int | None = limits.get("processes")

    def perform(self) -> dict[str, Any]:
        """Run the script to its end; the answer is the content of `result.json`."""
        result: dict[str, Any] = {"id": self.request["id"], "error": None, "pass": None, "facts": {}}
        script = self.request["subject"]["script"]
        shadow = self.loaded.shadows(os.path.dirname(os.path.realpath(script)))
        if shadow is not None:
            why = f"{shadow} beside the script has the name of a module that is already loaded here"
            return result | {"status": "infra_error", "why": why, "seconds": 0.0}
        self.run()
        cold = os.path.join(self.dir, COLD)
        if os.path.exists(cold):
            with open(cold, encoding="utf-8") as file:
                why = f"{file.read()} set before the import"
            os.remove(cold)
            return result | {"status": "infra_error", "why": why, "facts": {"cold": True}, "seconds": 0.0}
        ended = self.ended
        why = (
            f"the experiment was ended: {ended['reason']}" if ended["status"] == "killed" else ended.get("error") or ""
        )
        facts = {"exit": ended}
        return result | {"status": STATUS[ended["status"]], "why": why, "facts": facts, "seconds": ended["seconds"]}

    def _finish(self, verdict: dict[str, Any]) -> None:
        super()._finish(verdict)
        self.ended = verdict

    def _look(self, pids: list[int]) -> None:
        super()._look(pids)
        if self.reason is None and self.processes and len(pids) > self.processes:
            self._end("processes")

    def _spawn(self) -> Fork:
        pipes = {name: os.pipe() for name in self.streams}
        pid = os.fork()
        if pid == 0:
            try:
                for fd, name in ((1, "stdout"), (2, "stderr")):
                    os.dup2(pipes[name][1], fd)
                for pipe in pipes.values():
                    os.close(pipe[0])
                    os.close(pipe[1])
                self._become()
            finally:
                os._exit(70)  # reached only if the harness itself failed
        with contextlib.suppress(OSError):  # the child does the same; whoever comes first
            os.setpgid(pid, pid)
        for name, (reader, writer) in pipes.items():
            os.close(writer)
            self._follow(reader, name)
        return Fork(pid)

    # ------------------------------------------------------------------------------------- in the script's process

    def _become(self) -> NoReturn:
        """Take on the state of a fresh process, and be the script."""
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        separate()
        keeper.prctl(keeper.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (*keeper.ENDING_SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.selector.close()
        for stream in self.streams.values():
            stream.file.close()
        self._limit()
        self._environment()
        forget()
        self.loaded.hide(self._give_up)
        leave(self.request["subject"])

    def _give_up(self, names: list[str]) -> NoReturn:
        """The packages would have loaded otherwise under these variables."""
        with open(os.path.join(self.dir, COLD), "w", encoding="utf-8") as file:
            file.write(", ".join(names))
        os._exit(0)

    def _limit(self) -> None:
        """A file that grows too large ends the process by SIGXFSZ, which nothing in the script can take for its own."""
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        size = self.request["limits"].get("file")
        if size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def _environment(self) -> None:
        """What the template set for itself goes; folders of the experiment's own take the place of the user's."""
        for name in self.preset:
            os.environ.pop(name, None)
        private = {name: os.path.join(self.dir, folder) for name, folder in (("TMPDIR", "tmp"), ("HOME", "home"))}
        for folder in private.values():
            os.makedirs(folder, exist_ok=True)
        os.environ.update(private, TILELANG_TMP_DIR=private["TMPDIR"])
        for name, value in (self.request.get("env") or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        tempfile.tempdir = None
        sys.dont_write_bytecode = True  # the modules beside the script are the user's folder


def separate() -> None:
    """Cut the process off from every network but its own loopback where the kernel allows it, and go on where not."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "unshare"):
        return
    user, group = os.getuid(), os.getgid()
    if library.unshare(CLONE_NEWNET) != 0:  # who is not root may, as root of a user namespace
        if library.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            return
        keeper.prctl(PR_SET_DUMPABLE, 1)  # which the new credentials took away
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with contextlib.suppress(OSError), open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        fcntl.ioctl(way, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def forget() -> None:
    """What every fork would have in common, and processes of their own do not: random numbers, warnings once given."""
    random.seed()
    for module, source in (("numpy", "random"), ("torch", "default_generator")):
        if module in sys.modules:
            getattr(sys.modules[module], source).seed()
    with warnings.catch_warnings():  # entering it makes every module forget what it warned of
        pass


def leave(subject: dict[str, Any]) -> NoReturn:
    """Run the script and end the process as the interpreter would: threads, exit functions, buffers, status."""
    status = 1
    try:
        boot.run(subject)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - an interrupt that the script sent itself
        sys.excepthook(type(error), error, error.__traceback__)
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)  # what C and C++ printed
    os._exit(status & 0xFF)
