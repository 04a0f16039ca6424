"""Run one command and outlive whatever it does: `python -I keeper.py SPEC.json` (docs/architecture.md).

The keeper is started as leader of its own session with a pipe as standard input; the end of that pipe means
that its parent is gone. It adopts every descendant of the command (child subreaper), so that nothing it started
is left running. It writes `exit.json` last, by rename. Standard library only.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

TICK = 0.2
#: after the command ended, how long its children may go on writing
DRAIN = 0.5
#: between SIGUSR1 (stacks), SIGTERM and SIGKILL
GRACE = 1.0
OUTPUT_LIMIT = 4 << 20
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def prctl(option: int, value: int) -> bool:
    """Call prctl(2); False where it does not exist (not Linux) or was refused."""
    try:
        return ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


class Stream:
    """One output of the command: the first `limit` bytes go straight to the file, the last `limit` bytes at the end.

    Where bytes between the two were dropped, one line in the file says how many.
    """

    def __init__(self, path: str, limit: int) -> None:
        self.file = open(path, "wb", buffering=0)  # noqa: SIM115 - lives as long as the stream
        self.limit = limit
        self.total = 0
        self._head = 0
        self._tail: collections.deque[bytes] = collections.deque()
        self._tail_size = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self.limit - self._head
        if room > 0:
            self._write(data[:room])
            self._head += len(data[:room])
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= self.limit:
                self._tail_size -= len(self._tail.popleft())

    def close(self) -> tuple[int, int | None]:
        """Write the tail; returns the number of bytes cut, and where in the file (None: nothing was)."""
        tail = b"".join(self._tail)[-self.limit :] if self.limit else b""
        cut = self.total - self._head - len(tail)
        if cut:
            self._write(b"\n[... %d bytes cut here by triage ...]\n" % cut)
        self._write(tail)
        self.file.close()
        return cut, self._head if cut else None

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        with contextlib.suppress(OSError):  # a full disk costs output, never the run
            while view:
                view = view[self.file.write(view) or 0 :]


def descendants(root: int) -> list[int]:
    """The process ids below `root`, nearest first; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    try:
        entries = os.listdir("/proc")
    except OSError:
        return []
    for entry in entries:
        if entry.isdigit():
            stat = _read(f"/proc/{entry}/stat")
            # the name in parentheses may itself hold spaces and parentheses
            fields = stat.rpartition(b")")[2].split()
            if len(fields) > 1 and fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, queue = [], collections.deque([root])
    while queue:
        below = children.get(queue.popleft(), [])
        found += below
        queue += below
    return found


def resident(pids: list[int]) -> int:
    """Bytes of memory the processes hold, every shared page counted in each of them."""
    page = os.sysconf("SC_PAGE_SIZE")
    fields = [_read(f"/proc/{pid}/statm").split() for pid in pids]
    return sum(int(f[1]) for f in fields if len(f) > 1) * page


def proportional(pids: list[int]) -> int:
    """Bytes of memory the processes hold, shared pages counted once in all; slower than `resident`."""
    total = 0
    for pid in pids:
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


class Keeper:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.dir = spec["dir"]
        self.timeout: float | None = spec.get("timeout")
        self.memory: int | None = spec.get("memory")
        self.grace: float = spec.get("grace", GRACE)
        limit = OUTPUT_LIMIT if spec.get("output_limit") is None else spec["output_limit"]
        self.streams = {name: Stream(os.path.join(self.dir, name), limit) for name in ("stdout", "stderr")}
        self.selector = selectors.DefaultSelector()
        self.start = time.monotonic()
        self.wait_status: int | None = None
        #: why the keeper ends the command: timeout | memory | parent | signal
        self.reason: str | None = None
        self._steps: collections.deque[tuple[float, signal.Signals]] = collections.deque()
        self._left_behind = 0
        self._look_again = self.start + TICK
        #: nothing that the command started runs any more: whatever it leaves becomes a child of the subreaper
        self._childless = False

    # -- starting -------------------------------------------------------------------------------------

    def run(self) -> None:
        self._reaps = prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._listen()
        try:
            self.child = self._spawn()
        except OSError as error:
            self._finish(
                {"status": "failed", "code": None, "signal": None, "error": f"{type(error).__name__}: {error}"}
            )
            return
        while self.wait_status is None:
            self._pump(TICK)
            self._reap()
            self._enforce()
        self._settle()
        self._finish(self._verdict(self.wait_status))

    def _listen(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in ENDING_SIGNALS:
            signal.signal(number, lambda *_: self._end("signal"))
        self.selector.register(reader, selectors.EVENT_READ, "wakeup")
        with contextlib.suppress(OSError, ValueError, PermissionError):  # a regular file cannot be polled
            self.selector.register(0, selectors.EVENT_READ, "parent")

    def _spawn(self) -> Any:
        """Start the command; the answer has a `pid`, and its `returncode` is set when it has ended."""

        def prepare() -> None:
            os.setpgid(0, 0)  # a script that kills its own group kills itself only
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        child = subprocess.Popen(
            self.spec["command"],
            cwd=self.spec.get("cwd"),
            env={**os.environ, **self.spec.get("env", {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=prepare,
        )
        assert child.stdout is not None and child.stderr is not None
        self._follow(child.stdout.fileno(), "stdout")
        self._follow(child.stderr.fileno(), "stderr")
        return child

    def _follow(self, pipe: int, name: str) -> None:
        """Take what comes out of a pipe as that output of the command."""
        os.set_blocking(pipe, False)
        self.selector.register(pipe, selectors.EVENT_READ, name)

    # -- watching -------------------------------------------------------------------------------------

    def _pump(self, wait: float) -> bool:
        """Move what is readable; True if anything was."""
        moved = False
        for key, _ in self.selector.select(wait):
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if key.data in self.streams:
                moved = True
                self.streams[key.data].feed(data)
            if not data:
                self.selector.unregister(key.fd)
                if key.data == "parent":
                    self._end("parent")
        return moved

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.child.pid:
                    self.wait_status = status
                    self.child.returncode = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self._childless = self._reaps

    def _enforce(self) -> None:
        now = time.monotonic()
        if self.reason is None and self.timeout is not None and now - self.start >= self.timeout:
            self.reason = "timeout"
            self._steps.extend(
                [(now, signal.SIGUSR1), (now + self.grace, signal.SIGTERM), (now + 2 * self.grace, signal.SIGKILL)]
            )
        if self.reason is None and now >= self._look_again:
            self._look_again = now + TICK  # and not after every line of output: it reads all of /proc
            self._look(descendants(os.getpid()))
        while self._steps and self._steps[0][0] <= time.monotonic():
            self._signal(self._steps.popleft()[1])

    def _look(self, pids: list[int]) -> None:
        """End the command where its processes hold more memory than they may."""
        if self.memory is not None and resident(pids) > self.memory and proportional(pids) > self.memory:
            self._end("memory")

    def _end(self, reason: str) -> None:
        """Begin to end the command now: SIGTERM, then SIGKILL."""
        if self.reason is None:
            now = time.monotonic()
            first = signal.SIGKILL if reason == "memory" else signal.SIGTERM
            self.reason = reason
            self._steps.extend([(now, first), (now + self.grace, signal.SIGKILL)])

    def _signal(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self._kill_all()
        elif number == signal.SIGUSR1:
            _kill(self.child.pid, number)  # only the observed process writes its stacks; others would die of it
        else:
            for pid in descendants(os.getpid()) or [self.child.pid]:
                _kill(pid, number)

    def _kill_all(self) -> int:
        """SIGKILL every descendant until none is left; returns how many there were at first."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, signal.SIGKILL)
        first = None
        for _ in range(100):
            pids = descendants(os.getpid())
            first = len(pids) if first is None else first
            if not pids:
                break
            for pid in pids:
                _kill(pid, signal.SIGSTOP)  # so that none can fork away between the listing and the kill
            for pid in pids:
                _kill(pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.01)
        return first or 0

    # -- ending ---------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """The command itself has ended: let its children finish writing for a moment, then end them."""
        deadline = time.monotonic() + DRAIN
        while not self._childless and time.monotonic() < deadline and self._open_streams() and descendants(os.getpid()):
            self._pump(0.05)
            self._reap()
        if not self._childless:
            self._left_behind = len(descendants(os.getpid()))
            self._kill_all()
        while self._open_streams() and self._pump(0.0):
            pass
        self._reap()

    def _open_streams(self) -> bool:
        return any(key.data in self.streams for key in self.selector.get_map().values())

    def _verdict(self, status: int) -> dict[str, Any]:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        if self.reason is not None:
            verdict = "timed_out" if self.reason == "timeout" else "killed"
        else:
            verdict = "succeeded" if code == 0 else "failed"
        return {"status": verdict, "code": code, "signal": number, "reason": self.reason}

    def _finish(self, verdict: dict[str, Any]) -> None:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        scale = 1 if sys.platform == "darwin" else 1024
        closed = {name: stream.close() for name, stream in self.streams.items()}
        verdict |= {
            "seconds": round(time.monotonic() - self.start, 6),
            "rusage": {"user": usage.ru_utime, "system": usage.ru_stime, "max_resident": usage.ru_maxrss * scale},
            "bytes_out": {name: stream.total for name, stream in self.streams.items()},
            "cut": {name: cut for name, (cut, _) in closed.items()},
            "cut_at": {name: at for name, (_, at) in closed.items()},
            "left_behind": self._left_behind,
        }
        path = os.path.join(self.dir, "exit.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(verdict, file)
        os.replace(path + ".part", path)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    Keeper(spec).run()


if __name__ == "__main__":
    main()
