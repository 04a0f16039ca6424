"""Looking at edits of a wrong kernel in one run against running each changed script: `python benchmarks/screen.py [--edits N] [NAME…]`.

Takes scripts of `tests/quality/wrong`. Both ways see the same edits, on one core each, and nothing is kept between them. Prints edits a second, the ratio, and of
how many edits the one run said something; what it said is held against the runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "quality")]

from triage.experiment.errors import read_events  # noqa: E402
from triage.experiment.repairs import edits  # noqa: E402
from triage.experiment.screen import screened  # noqa: E402
from triage.experiment.scripts import Candidate, ScriptRunner  # noqa: E402
from triage.experiment.twin import read  # noqa: E402

SCRIPTS = ROOT / "tests" / "quality" / "wrong"
NAMES = ("attention-causal.py", "cumsum-chunked.py", "grouped-gemm.py", "rmsnorm.py", "softmax-exp2.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("names", nargs="*", default=NAMES)
    asked = parser.parse_args()
    os.environ.setdefault("TILELANG_DEFAULT_TARGET", '{"kind":"cuda","arch":"sm_90a"}')
    wrong = 0
    for name in asked.names:
        with tempfile.TemporaryDirectory() as folder:
            wrong += compare(name, Path(folder), asked.edits)
    return 1 if wrong else 0


def compare(name: str, folder: Path, count: int) -> int:
    """One script; the number of edits of which the two ways say different things."""
    source = (SCRIPTS / name).read_text("utf-8").replace("  # BUG", "")
    shutil.copytree(SCRIPTS / "helpers", folder / "helpers")
    (folder / name).write_text(source, encoding="utf-8")
    some = edits(source, range(1, source.count("\n")))
    some = some[:: max(1, len(some) // count)]
    with ScriptRunner(folder / "runs", folder / name, cwd=folder, jobs=1) as runner:
        began = time.perf_counter()
        found = screened(runner, Candidate(source, twin=()), some, 600.0, 60.0)
        looked = time.perf_counter() - began
        began = time.perf_counter()
        runs = {edit: runner.run(Candidate(edit.apply(source), twin=())) for edit in some}
        ran = time.perf_counter() - began
        passes = {edit: read(read_events(s.directory), s.status, runner.blob).passes for edit, s in runs.items()}
    wrong = sum(passes[edit] is not said for edit, said in found.known.items())
    rates = len(some) / looked, len(some) / ran
    print(
        f"{name:24} {len(some)} edits: {rates[0]:6.1f} a second in one run, {rates[1]:5.1f} by runs, {rates[0] / rates[1]:5.1f} times; "
        f"known of {len(found.known)}, {wrong} of these otherwise than by running",
        flush=True,
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
