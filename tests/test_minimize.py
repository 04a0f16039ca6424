"""`triage minimize` as a user runs it: the fault stays, the script gets small, a kill loses nothing."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
TARGET = '{"kind": "cuda", "arch": "sm_90a"}'

pytestmark = [
    pytest.mark.tilelang,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="the scripts need tilelang"),
]

FAILS = '''"""A product of tiles whose inner extents differ."""
import math

import torch
import tilelang
import tilelang.language as T


def unused(x):
    return math.sqrt(x)


@tilelang.jit(out_idx=[2])
def matmul(M, N, K, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_N, block_K), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], a)
                T.gemm(a, b, c)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    kernel = matmul(1024, 1024, 1024)
    print(kernel(torch.randn(1024, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")))
'''


def command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "triage", "minimize", "kernel.py", "-o", "small.py", *options]


def minimize(folder: Path, text: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    """Without a `text` the script is there already; written again it would count as another."""
    if text is not None:
        (folder / "kernel.py").write_text(text, encoding="utf-8")
    done = subprocess.run(command(folder, *options), cwd=folder, env=ENV, capture_output=True, text=True, timeout=400)
    assert "Traceback" not in done.stderr
    return done


def test_a_script_gets_small_and_shows_the_same_fault_by_itself(tmp_path: Path) -> None:
    done = minimize(tmp_path, FAILS, "--budget", "200")
    assert done.returncode == 0, done.stderr
    assert "the same fault (TLG014)" in done.stdout
    text = (tmp_path / "small.py").read_text(encoding="utf-8")
    code = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 14 and "unused" not in text and "Minimized from kernel.py" in text
    alone = subprocess.run(
        [sys.executable, "small.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100,
        env={**os.environ, "TILELANG_DEFAULT_TARGET": TARGET},
    )  # fmt: skip
    assert alone.returncode == 1 and "T.gemm K shape check failed" in alone.stderr
    assert (tmp_path / "kernel.py").read_text(encoding="utf-8") == FAILS


def test_a_script_without_a_fault_is_not_minimized(tmp_path: Path) -> None:
    done = minimize(tmp_path, "print('all is well')\n")
    assert done.returncode == 3 and "there is no fault to keep" in done.stderr
    assert not (tmp_path / "small.py").exists()


def test_a_fault_that_changes_from_run_to_run_is_refused(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.mkdir()
    text = f"import os\nn = len(os.listdir({str(count)!r}))\nopen({str(count)!r} + f'/{{n}}', 'w')\nraise [KeyError, ValueError, IndexError][n % 3]('x')\n"
    done = minimize(tmp_path, text)
    assert done.returncode == 3 and "does not show the same fault every time" in done.stderr


@pytest.mark.parametrize("output", [".", "missing/small.py", "kernel.py"])
def test_an_output_that_cannot_be_written_is_bad_usage(output: str, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("raise KeyError('a')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "triage", "minimize", "kernel.py", "-o", output],
        cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and "-o" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_after_kills_the_same_command_ends_with_the_same_text(seed: int, tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    for folder in (straight, killed):
        folder.mkdir()
        (folder / "kernel.py").write_text(FAILS, encoding="utf-8")
    for results in sorted(random.Random(seed).sample(range(2, 30), 3)):
        running = subprocess.Popen(
            command(killed), cwd=killed, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        enough = partial(at_least, killed, results)
        wait_for(lambda running=running, enough=enough: enough() or running.poll() is not None)
        running.send_signal(signal.SIGKILL)
        running.wait()
    known = len(list(killed.glob(".triage/minimize-*/*/asked.json")))
    again, done = minimize(killed, None), minimize(straight, None)
    assert again.returncode == done.returncode == 0
    assert (killed / "small.py").read_text() == (straight / "small.py").read_text()
    assert known >= 2 and runs(again.stdout) < runs(done.stdout)


def at_least(folder: Path, results: int) -> bool:
    return len(list(folder.glob(".triage/minimize-*/*/asked.json"))) >= results


def runs(said: str) -> int:
    found = re.search(r"(\d+) runs", said)
    assert found is not None, said
    return int(found[1])


@pytest.mark.slow
def test_autodd_proposes_and_triage_judges(tmp_path: Path) -> None:
    text = (
        "import json\nimport os\n\n\ndef f(n, m=3):\n    total = 0\n    for i in range(n):\n        total += i\n"
        "    return {'a': total}[\"b\"]\n\n\nif os.path.isdir('out'):\n    os.chmod('out', 448)\n"
        "x = 5\nf(4)\nprint(x)\n"
    )
    done = minimize(tmp_path, text, "--reducer", "autodd", "--budget", "200")
    assert done.returncode == 0, done.stderr
    small = (tmp_path / "small.py").read_text()
    assert "['b']" in small and "import json" not in small and "print" not in small
    tried = [path.read_text() for path in tmp_path.glob(".triage/minimize-*/*/candidate.py")]
    assert len(tried) > 10  # and what touches files was run as it is, with its guard, or not at all
    able = [text for text in tried if "import os" in text and "chmod" in text]
    assert able and all("if os.path.isdir('out'):\n    os.chmod('out', 448)\n" in text for text in able)


def wait_for(condition: object, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
