from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SERVE = Path(__file__).resolve().parent.parent.parent / "triage" / "harness" / "serve.py"
TARGET = {"kind": "cuda", "arch": "sm_90a"}

pytestmark = pytest.mark.tilelang

SAVE = """
import sys
from tilelang import tvm
sys.path.insert(0, sys.argv[1])
import prime
open(sys.argv[2], "w").write(tvm.ir.save_json(prime.gemm(int(sys.argv[3]))))
"""


@pytest.fixture(scope="module")
def primfunc(tmp_path_factory) -> Path:
    pytest.importorskip("tilelang")
    path = tmp_path_factory.mktemp("primfunc") / "gemm.json"
    subprocess.run([sys.executable, "-c", SAVE, str(SERVE.parent), str(path), "64"], check=True, capture_output=True)
    return path


class Raw:
    """The template's own protocol, without the client."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket, theirs = socket.socketpair()
        spec = directory / "spec.json"
        spec.write_text(
            json.dumps({"socket": theirs.fileno(), "dir": str(directory), "script": None, "target": TARGET})
        )
        self.process = subprocess.Popen([sys.executable, str(SERVE), str(spec)], pass_fds=[theirs.fileno()])
        theirs.close()
        self.lines = self.socket.makefile("r")

    def read(self) -> dict:
        return json.loads(self.lines.readline())

    def send(self, **message) -> None:
        self.socket.sendall((json.dumps(message) + "\n").encode())

    def run(self, id: str, primfunc: Path, op: str = "codegen", **more) -> None:
        self.send(type="run", id=id, op=op, primfunc=str(primfunc), target=TARGET, dir=str(self.directory / id), **more)

    def close(self) -> int:
        self.lines.close()
        self.socket.close()
        return self.process.wait(20)


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    running = Raw(tmp_path_factory.mktemp("serve"))
    assert running.read()["type"] == "ready"
    yield running
    running.close()


def result(message: dict) -> dict:
    return json.loads(Path(message["result"]).read_text())


def test_a_worker_that_crashes_is_a_fault_and_no_hang(raw, primfunc) -> None:
    raw.run("crash", primfunc)
    started = raw.read()
    os.kill(started["pid"], signal.SIGSEGV)
    done = raw.read()
    assert (done["id"], done["status"]) == ("crash", "failed")
    assert result(done)["error"]["type"] == "SIGSEGV"
    assert result(done)["error"]["kind"] == "signal"


def test_a_worker_that_is_killed_by_someone_is_no_fault(raw, primfunc) -> None:
    raw.run("killed", primfunc)
    os.kill(raw.read()["pid"], signal.SIGKILL)
    assert raw.read()["status"] == "infra_error"


def test_a_cancelled_worker_ends(raw, primfunc) -> None:
    raw.run("cancelled", primfunc)
    pid = raw.read()["pid"]
    os.kill(pid, signal.SIGSTOP)
    raw.send(type="cancel", id="cancelled")
    done = raw.read()
    assert (done["status"], result(done)["why"]) == ("infra_error", "cancelled")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_over_its_memory_ends(raw, primfunc) -> None:
    raw.run("memory", primfunc, limits={"memory": 1})
    raw.read()
    assert result(raw.read())["why"] == "out of memory"


def test_requests_are_served_side_by_side_and_outputs_kept(raw, primfunc) -> None:
    for id in ("a", "b", "c"):
        raw.run(id, primfunc, "lower")
    messages = [raw.read() for _ in range(6)]
    assert {m["id"]: m["status"] for m in messages if m["type"] == "done"} == dict.fromkeys("abc", "succeeded")
    assert all((raw.directory / id / "stdout").exists() for id in "abc")
    assert list(raw.directory.glob("*/result.[0-9]*")) == []  # written whole, then renamed


def test_when_the_other_end_closes_template_and_workers_end(tmp_path, primfunc) -> None:
    raw = Raw(tmp_path)
    assert raw.read()["type"] == "ready"
    raw.run("one", primfunc)
    pid = raw.read()["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert raw.close() == 0
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_quit_ends_it(tmp_path) -> None:
    raw = Raw(tmp_path)
    assert raw.read()["type"] == "ready"
    raw.send(type="quit")
    assert raw.process.wait(20) == 0
    raw.close()
