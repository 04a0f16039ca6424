"""What triage costs, as ratios measured in one run: `python benchmarks/startup.py [--rounds N]`.

* start-up: `triage --help` and `triage explain TLG014`, to a pipe, over `python -c pass` (bar: 6);
* observation: `triage run --budget 0 SCRIPT`, from the start of the command to the written report, over
  `python SCRIPT` with the same target (bar: 1.5), for scripts that stop at the DSL, in a pass, in nvcc, and not at all.

Commands alternate within a round, and medians of the rounds are compared, so a drift of the machine hits both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "fixtures" / "kernels"
SCRIPTS = ("gemm-transpose-wrong", "layout-conflict", "nvcc-bad-intrinsic", "two-kernels-ok")
TARGET = '{"kind":"cuda","arch":"sm_90a"}'


def seconds(command: list[str], folder: str, env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
    return time.perf_counter() - start


def compare(name: str, command: list[str], base: list[str], rounds: int, bar: float, env: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(seconds(command, folder, env), seconds(base, folder, env)) for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    verdict = "within" if ours / theirs <= bar else "above"
    print(f"{name:40} {ours:7.3f} s  {theirs:7.3f} s  ratio {ours / theirs:5.2f}  ({verdict} {bar})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    python, env = sys.executable, {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["--help"], ["explain", "TLG014"]):
        command = [python, "-m", "triage", *words]
        compare("triage " + " ".join(words), command, [python, "-c", "pass"], 4 * rounds, 6.0, env)
    env |= {"TILELANG_DEFAULT_TARGET": TARGET, "TILELANG_DISABLE_CACHE": "1"}
    for name in SCRIPTS:
        script = str(KERNELS / f"{name}.py")
        command = [python, "-m", "triage", "run", "--budget", "0", script]
        compare(f"observe {name}", command, [python, script], rounds, 1.5, env)


if __name__ == "__main__":
    main()
