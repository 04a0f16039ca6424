"""`triage minimize` beside `python -m tilelang.autodd` on the same scripts: `python benchmarks/minimize.py [NAME…]`.

For every script of `benchmarks/minimize/` (or those named): wall seconds and lines of code left of both, and the ratio of
the seconds. autodd looks for the line of the error that says what is wrong and is stopped after `--limit` seconds; what it has
on disk by then counts. Both run one after the other on the same machine, without a GPU, for sm_90a. What both leave is
run once more, and told apart from the script's own fault by triage's oracle: `slipped` is a result that shows another.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from triage.experiment.oracle import Verdict, decisive  # noqa: E402
from triage.experiment.same_fault import outcome, start_of  # noqa: E402
from triage.experiment.scripts import Candidate, ScriptRunner  # noqa: E402
from triage.knowledge.files import rules_root  # noqa: E402
from triage.knowledge.load import load_rules  # noqa: E402
from triage.knowledge.stages import Stages  # noqa: E402
from triage.readers import decisive as decisive_record  # noqa: E402

TARGET = '{"kind": "cuda", "arch": "sm_90a"}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each of the two (600)")
    options = parser.parse_args()
    scripts = [p for p in sorted((HERE / "minimize").glob("*.py")) if not options.names or p.stem in options.names]
    print(f"{'script':22} {'lines':>5}  {'triage':>22}  {'autodd':>22}  ratio of seconds")
    for script in scripts:
        with tempfile.TemporaryDirectory(prefix="minimize-") as folder:
            both = [run_triage(script, Path(folder), options.limit), run_autodd(script, Path(folder), options.limit)]
            same = judged(script, Path(folder), [Path(folder) / "triage.py", Path(folder) / "autodd.py"])
        shown = "  ".join(f"{t:6.1f} s {n:3} l {s:>8}" for (t, n), s in zip(both, same, strict=True))
        print(
            f"{script.stem:22} {code_lines(script.read_text()):5}  {shown}  {both[0][0] / both[1][0]:.2f}", flush=True
        )


def judged(script: Path, folder: Path, results: list[Path]) -> list[str]:
    """What each result shows: the same fault as the script, or not."""
    rules, stages = load_rules(), Stages.load(rules_root() / "reference" / "stages.toml")
    with ScriptRunner(folder / "judge", script, cwd=folder, env={"TILELANG_DEFAULT_TARGET": TARGET}) as runner:
        shown = runner.run(Candidate(script.read_text()), 300.0)
        start = start_of(shown.errors, shown.status, rules, stages)
        assert start is not None, "the script shows no fault"
        said = []
        for path in results:
            if not path.exists():
                said.append("nothing")
                continue
            found = runner.run(Candidate(path.read_text()), 300.0)
            verdict = outcome(start, found.status, found.errors, rules, stages, renamed=True).verdict
            said.append("same" if verdict is Verdict.SAME else "slipped")
    return said


def run_triage(script: Path, folder: Path, limit: float) -> tuple[float, int]:
    output = folder / "triage.py"
    words = ["-m", "triage", "minimize", str(script), "-o", str(output), "--budget", str(limit)]
    return timed(words, folder, limit + 60, output)


def run_autodd(script: Path, folder: Path, limit: float) -> tuple[float, int]:
    output = folder / "autodd.py"
    words = ["-m", "tilelang.autodd", str(script), "--err-msg", message_of(script, folder), "-o", str(output)]
    return timed(words, folder, limit, output)


def message_of(script: Path, folder: Path) -> str:
    """The line of the error that says what is wrong, from where it is the same in every run."""
    with ScriptRunner(folder / "message", script, cwd=folder, env={"TILELANG_DEFAULT_TARGET": TARGET}) as runner:
        shown = runner.run(Candidate(script.read_text()), 300.0)
    said = decisive(decisive_record(shown.errors[-1]).message)
    return said.rpartition("): error: ")[2]


def timed(words: list[str], folder: Path, limit: float, output: Path) -> tuple[float, int]:
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
    seconds = time.monotonic() - start
    return seconds, code_lines(output.read_text()) if output.exists() else 0


def code_lines(text: str) -> int:
    """Lines of a script as `ast.unparse` writes it: no comments, one layout for both."""
    return len([line for line in ast.unparse(ast.parse(text)).splitlines() if line.strip()])


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TILELANG_", "TL_", "TVM_"))}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, "TILELANG_DEFAULT_TARGET": TARGET, "TILELANG_DISABLE_CACHE": "1"}


if __name__ == "__main__":
    main()
