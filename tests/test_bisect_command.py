"""`triage bisect` as a user runs it: a table of switches, exit statuses, and a kill loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}

pytestmark = [
    pytest.mark.tilelang,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="the scripts need tilelang"),
]

#: two pipelined loops, each with an order for two of its three statements
FAILS = """
import sys
import tilelang
import tilelang.language as T


@T.prim_func
def good(A: T.Tensor((64, 32), "float16")):
    with T.Kernel(1, threads=128) as _:
        a = T.alloc_shared((64, 32), "float16")
        T.copy(A, a)
        T.copy(a, A)


@T.prim_func
def twice(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16")):
    with T.Kernel(4, threads=128) as bx:
        a = T.alloc_shared((64, 32), "float16")
        c = T.alloc_fragment((64, 32), "float16")
        for k in T.Pipelined(8, order=[0, 1], stage=[0, 1]):
            T.copy(A[bx * 64, k * 32], a)
            T.copy(a, c)
            T.copy(c, B[bx * 64, k * 32])
        for n in T.Pipelined(8, order=[0, 1], stage=[0, 1]):
            T.copy(B[bx * 64, n * 32], a)
            T.copy(a, c)
            T.copy(c, B[bx * 64, n * 32])


for kernel in (good, twice):
    tilelang.compile(kernel)
"""


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "triage", "bisect", "kernel.py", *options]


def bisect(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "kernel.py").write_text(text, encoding="utf-8")
    done = subprocess.run(command(*options), cwd=folder, env=ENV, capture_output=True, text=True, timeout=500)
    assert "Traceback" not in done.stderr
    return done


def answer(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The page without the line that counts seconds."""
    return [line for line in done.stdout.splitlines() if "experiments in" not in line]


def results(folder: Path) -> int:
    return len(list(folder.glob(".triage/bisect-*/experiments/*/asked.json")))


def test_the_switches_of_the_kernel_that_fails_are_printed_also_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(FAILS, encoding="utf-8")
    running = subprocess.Popen(command(), cwd=tmp_path, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: results(tmp_path) >= 20 or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    running.wait()
    known = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".triage/bisect-*/experiments/*/asked.json")}
    done = bisect(tmp_path, FAILS)
    assert done.returncode == 0, done.stderr
    assert "kernel twice (kernel.py:16): tvm.error.InternalError" in done.stdout and "kernel good" not in done.stdout
    rows = [line for line in done.stdout.splitlines() if "of the loop over" in line and "left out  the result" in line]
    assert len(rows) == 2 and rows[0].lstrip().startswith("1.") and rows[1].lstrip().startswith("and")
    assert {path: path.stat().st_mtime_ns for path in known} == known  # none of them was run again


def test_a_script_without_a_failing_compile_has_nothing_to_bisect(tmp_path: Path) -> None:
    done = bisect(tmp_path, "raise KeyError('x')\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no kernel fails while it is compiled; the script ends with KeyError" in done.stderr


@pytest.mark.slow
def test_a_kernel_that_is_not_there_is_said_with_those_that_are(tmp_path: Path) -> None:
    done = bisect(tmp_path, FAILS, "--kernel", "thrice", "--", "an argument")
    assert done.returncode == 3 and "there is no kernel 'thrice'; the script built: good, twice" in done.stderr


@pytest.mark.slow
def test_kills_at_random_moments_do_not_change_the_answer(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir()
    killed.mkdir()
    expected = answer(bisect(straight, FAILS))
    (killed / "kernel.py").write_text(FAILS, encoding="utf-8")
    moments = random.Random(7)
    for _ in range(6):
        running = subprocess.Popen(command(), cwd=killed, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(2.0, 15.0))
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert answer(bisect(killed, FAILS)) == expected


def wait_for(condition: object, seconds: float = 200.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
