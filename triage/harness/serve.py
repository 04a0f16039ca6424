"""The template of experiments: `python serve.py SPEC3.json` imports tilelang once and forks per experiment.

SPEC3 is `{"socket": number of an inherited descriptor, "dir": a directory, "script": path or null, "target": target to prime
with, "scripts": whether scripts will be run}`. On the socket, JSON lines:

    → {"type": "run", "id", "op": "units"|"layouts"|"lower"|"codegen"|"device", "primfunc": path, "target", "pass_configs",
       "backend", "changes": [{"unit", "value"}], "limits": {"seconds", "memory": bytes}, "dir": path}
    → {"type": "run", "id", "op": "script", …}: a changed script; the fields stand in `trial.py`
    → {"type": "cancel", "id"}, {"type": "quit"}
    ← {"type": "ready", "version", "versions": of everything that decides a result, "threads", "seconds"} once, or {"type": "broken", "why"}
    ← {"type": "started", "id", "pid"}
    ← {"type": "done", "id", "status", "result": path of result.json}

A worker is a process group of its own with its own directory (TMPDIR and kernel cache below it); its outputs are
`dir/stdout` and `dir/stderr`. It writes `dir/result.json` by rename; for one that dies, runs out of time or of
memory, the template writes it. The worker of a script is a keeper of its own, which enforces the limits. Nothing computes here: after one computation of torch a forked child hangs for ever.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and not sys.flags.safe_path:
    sys.path.pop(0)  # this directory: its file names must not shadow anything

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import selectors
import signal
import socket
import time
import types
from typing import Any

PACKAGE = "_triage_harness"
#: whose files are never the user's, wherever they are installed
PACKAGES = ("tilelang", "tvm", "tvm_ffi", "torch")
TICK = 0.05
PR_SET_PDEATHSIG = 1
#: libraries that would start threads when they are imported, which a fork does not carry over
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: how much longer than its limit the keeper of a script may take, in seconds
KEEPER_GRACE = 10.0
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    directory = os.path.dirname(os.path.abspath(__file__))
    package = types.ModuleType(PACKAGE)
    package.__path__ = [directory]
    package.__spec__ = importlib.machinery.ModuleSpec(PACKAGE, None, is_package=True)
    sys.modules[PACKAGE] = package
    importlib.import_module(f"{PACKAGE}.serve").Template(spec).serve()


class Worker:
    """A fork at work: its request, its process and its deadline."""

    def __init__(self, request: dict[str, Any], pid: int) -> None:
        limits = request.get("limits") or {}
        self.id: str = request["id"]
        self.directory: str = request["dir"]
        self.pid = pid
        self.start = time.monotonic()
        #: a keeper, which enforces the limits itself and ends all that the script started
        self.keeps = request["op"] == "script"
        self.deadline = self.start + float(limits.get("seconds") or 60.0) + (KEEPER_GRACE if self.keeps else 0.0)
        self.memory: int | None = None if self.keeps else limits.get("memory")
        self.ended_by: str | None = None

    def kill(self, why: str) -> None:
        gently = self.keeps and self.ended_by is None and why != "timed_out"
        self.ended_by = self.ended_by or why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM if gently else signal.SIGKILL)


class Template:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.channel = socket.socket(fileno=spec["socket"])
        self.channel.set_inheritable(False)
        self.workers: dict[int, Worker] = {}
        self.buffer = b""

    def serve(self) -> None:
        """Until `quit` or the other end closes. No worker outlives this."""
        start = time.monotonic()
        die_with_parent()  # the socket closes as well, but nobody reads it before the imports are done
        try:
            version = self.prepare()
        except Exception as error:  # noqa: BLE001 - tilelang may fail to import in any way; the parent reports it
            self.send({"type": "broken", "why": f"{type(error).__name__}: {error}"})
            return
        seconds = round(time.monotonic() - start, 3)
        self.send(
            {
                "type": "ready",
                "version": version,
                "versions": self.versions | {"tilelang": version},
                "threads": threads(),
                "seconds": seconds,
            }
        )
        wake, notify = os.pipe()
        for end in (wake, notify):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(self.channel, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        try:
            going = True
            while going:
                ready = {key.fileobj for key, _ in selector.select(TICK if self.workers else None)}
                if wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 4096)
                if self.channel in ready:
                    going = self.receive()
                self.reap()
                self.enforce()
        finally:
            for worker in list(self.workers.values()):
                worker.kill("cancelled")

    def prepare(self) -> str:
        """Import tilelang, and lower once what the parent sent for it: the first lowering loads what the others share."""
        from . import events, loaded

        self.preset = [name for name in (*SINGLE, "TILELANG_DISABLE_CACHE") if name not in os.environ]
        os.environ.update(dict.fromkeys(self.preset, "1"))
        self.loaded = loaded.Loaded()
        self.loaded.load(look_like_cuda if self.spec.get("scripts") else None)
        import tilelang
        import torch

        from . import forking, prime, worker

        torch.set_num_threads(1)
        self.files = events.UserFiles(self.spec.get("script"))
        for package in PACKAGES:
            self.files.exclude(package)
        with silence():
            for rows in (prime.GOOD_ROWS, prime.BAD_ROWS):
                worker.compile(prime.gemm(rows), {"op": "lower", "target": self.spec.get("target")}, self.files)
            if self.spec.get("scripts"):
                prime.virtual_device()
        self.loaded.settle()
        forking.prepare()
        self.versions = {"python": sys.version, "torch": str(torch.__version__)}
        return str(getattr(tilelang, "__version__", "unknown"))

    # ------------------------------------------------------------------------------------------------- requests

    def receive(self) -> bool:
        """Read what came and act on every whole line; False when it is time to go."""
        data = self.channel.recv(1 << 16)
        if not data:
            return False
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["type"] == "quit":
                return False
            if request["type"] == "cancel":
                for worker in self.workers.values():
                    if worker.id == request["id"]:
                        worker.kill("cancelled")
            else:
                self.start(request)
        return True

    def start(self, request: dict[str, Any]) -> None:
        os.makedirs(request["dir"], exist_ok=True)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.work(request)
                code = 0
            finally:
                os._exit(code)
        with contextlib.suppress(OSError):  # the child does the same; whoever comes first
            os.setpgid(pid, pid)
        self.workers[pid] = Worker(request, pid)
        self.send({"type": "started", "id": request["id"], "pid": pid})

    def work(self, request: dict[str, Any]) -> None:
        """In the child: become a process group with outputs, directories and life of its own, then do the work."""
        from . import worker

        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        die_with_parent(signal.SIGTERM if request["op"] == "script" else signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.channel.close()
        directory = request["dir"]
        if request["op"] == "script":
            from . import trial

            write_result(directory, trial.Trial(request, self.loaded, self.preset).perform())
            return
        for fd, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(file, fd)
            os.close(file)
        private = os.path.join(directory, "tmp")
        os.makedirs(private, exist_ok=True)
        os.environ |= {"TMPDIR": private, "TILELANG_CACHE_DIR": private, "TILELANG_TMP_DIR": private}
        import tempfile

        tempfile.tempdir = private
        write_result(directory, worker.perform(request, self.files))

    # -------------------------------------------------------------------------------------------------- workers

    def reap(self) -> None:
        for pid, worker in list(self.workers.items()):
            try:
                gone, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                gone, status = pid, 0
            if gone:
                del self.workers[pid]
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # what the compiler may have left behind
                self.finish(worker, status)

    def finish(self, worker: Worker, status: int) -> None:
        path = os.path.join(worker.directory, "result.json")
        if worker.ended_by or not os.path.exists(path):
            write_result(worker.directory, self.obituary(worker, status))
        with open(path, encoding="utf-8") as file:
            outcome = json.load(file)["status"]
        self.send({"type": "done", "id": worker.id, "status": outcome, "result": path})

    def obituary(self, worker: Worker, status: int) -> dict[str, Any]:
        """The result of a worker that left none: a crash of the compiler is a fault, everything else is not known."""
        result: dict[str, Any] = {"id": worker.id, "error": None, "pass": None, "facts": {}}
        result["seconds"] = round(time.monotonic() - worker.start, 4)
        if worker.ended_by == "timed_out":
            return result | {"status": "timed_out"}
        if worker.ended_by:
            return result | {"status": "infra_error", "why": worker.ended_by}
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if number in CRASHES:
            name = signal.Signals(number).name
            error = {"kind": "signal", "type": name, "message": f"the compiler was ended by {name}", "origin": "event"}
            return result | {"status": "failed", "error": error}
        return result | {"status": "infra_error", "why": f"the worker ended with wait status {status}"}

    def enforce(self) -> None:
        now = time.monotonic()
        for worker in self.workers.values():
            if now > worker.deadline:
                worker.kill("timed_out")
            elif worker.memory is not None and resident(worker.pid) > worker.memory:
                worker.kill("out of memory")

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent is gone: recv will say so
            self.channel.sendall((json.dumps(message) + "\n").encode())


def write_result(directory: str, result: dict[str, Any]) -> None:
    partial = os.path.join(directory, f"result.{os.getpid()}")
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(result, file, default=str)
    os.replace(partial, os.path.join(directory, "result.json"))


def look_like_cuda() -> None:
    """Let torch say that it has a device, as it does in a script's fork once that has imported it."""
    from . import target
    from .virtual import cuda_api

    cuda_api.install(target.DEFAULT)


@contextlib.contextmanager
def silence() -> Any:
    """What priming prints goes nowhere: its failing kernel would look like a fault of the subject."""
    kept = {fd: os.dup(fd) for fd in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in kept:
            os.dup2(nowhere, fd)
        yield
    finally:
        for fd, copy in kept.items():
            os.dup2(copy, fd)
            os.close(copy)
        os.close(nowhere)


def threads() -> int | None:
    """Threads of this process, None where there is no /proc."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None


def resident(pid: int) -> int:
    """Resident memory in bytes, 0 where it cannot be read."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by, 0, 0, 0)


if __name__ == "__main__":
    main()
