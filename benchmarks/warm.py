"""What one more experiment with a script costs: `python benchmarks/warm.py [--rounds N]`.

A script that imports torch and tilelang and builds one kernel that the DSL refuses is run

* as a process of its own, `python SCRIPT`;
* as a process of its own under observation, as `triage run` does;
* warm: in a fork of the template, as every candidate of a minimization.

And a script that does nothing is run warm: the overhead of an experiment (bar: 0.2 s). Runs alternate within a round, and
medians of the rounds are compared, so a drift of the machine hits all of them. Every run is a new one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from triage.experiment.process import Subject, run_subject  # noqa: E402
from triage.experiment.scripts import Candidate, ScriptRunner  # noqa: E402

TARGET = '{"kind":"cuda","arch":"sm_90a"}'
BAR = 0.2
SCRIPT = """import tilelang
import tilelang.language as T
import torch


@T.prim_func
def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as _:
        left = T.alloc_shared((64, 32), "float16")
        right = T.alloc_shared((32, 64), "float16")
        total = T.alloc_fragment((64, 64), "float32")
        T.clear(total)
        T.copy(A, left)
        T.copy(B, right)
        T.gemm(left, right, total, transpose_B=True)
        T.copy(total, C)
"""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "kernel.py"
        script.write_text(SCRIPT)
        env = {**os.environ, "TILELANG_DEFAULT_TARGET": TARGET, "TILELANG_DISABLE_CACHE": "1"}
        subject = Subject(script=script, cwd=folder)
        with ScriptRunner(folder / "runner", script, cwd=folder) as runner:
            print(f"{runner.versions}; the template is ready after {runner.ready['seconds']:.2f} s")
            ways: dict[str, Callable[[], object]] = {
                "cold": lambda: subprocess.run(
                    [sys.executable, str(script)], env=env, capture_output=True, check=False
                ),
                "observed": lambda: run_subject(subject, folder / "step", folder / "blobs"),
                "warm": lambda: runner.again(Candidate(SCRIPT)),
                "empty": lambda: runner.again(Candidate("")),
            }
            measured = [{name: seconds(way) for name, way in ways.items()} for _ in range(rounds)]
            end = runner.run(Candidate(SCRIPT)).errors[-1]
    cold, observed, warm, empty = (statistics.median(row[name] for row in measured) for name in ways)
    print(f"ends in {end.type}: {end.message}")
    print(f"cold process        {cold:7.3f} s")
    print(f"observed process    {observed:7.3f} s")
    print(f"warm experiment     {warm:7.3f} s   1/{cold / warm:.1f} of the cold process")
    print(f"warm, empty script  {empty:7.3f} s   the overhead ({'within' if empty <= BAR else 'above'} {BAR} s)")


if __name__ == "__main__":
    main()
