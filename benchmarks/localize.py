"""How well and how fast lowering experiments find the line of faults that no frame names.

    python benchmarks/localize.py FOLDER… [--arch sm_90a] [--seconds 60]

Every `*.py` of the folders is run under observation; a kernel that fails in the compiler is localized, and the line
is compared with those that end in `# BUG`: `exact`, `label` (named as a second place), `near` (two lines off), `wrong`
or `none`. Without folders it takes the kernels of the tests.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "experiment")]  # a checkout need not be installed

from captured import KERNELS, Captured, capture, marked_lines, read_source  # noqa: E402

from triage.experiment.client import TemplateError  # noqa: E402
from triage.experiment.localize import Localization, localize  # noqa: E402
from triage.experiment.template import Template  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[KERNELS])
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of the experiments on one kernel")
    options = parser.parse_args()
    scripts = [script.resolve() for folder in options.folders for script in sorted(folder.glob("*.py"))]
    if not scripts:
        parser.error(f"no *.py in {', '.join(map(str, options.folders))}")
    counts: collections.Counter[str] = collections.Counter()
    seconds = []
    target = {"kind": "cuda", "arch": options.arch}
    with tempfile.TemporaryDirectory() as directory, Template(Path(directory) / "template", target=target) as template:
        for script in scripts:
            for kernel in capture(script, Path(directory) / script.stem, options.arch):
                if kernel.error is None:
                    continue
                found = try_one(kernel, template, options.seconds)
                grade = graded(found, marked_lines(script))
                counts[grade] += 1
                seconds.append(found.seconds)
                line = str(found.location.line) if found.location else "-"
                print(
                    f"{grade:8} {script.stem:28} line {line:>4}  {found.confidence or '-':9} "
                    f"{found.tries:3} lowerings {found.seconds:5.1f} s  {found.how}",
                    flush=True,
                )
    print(dict(counts), f"median {sorted(seconds)[len(seconds) // 2]:.1f} s" if seconds else "no kernel failed")
    return 0


def try_one(kernel: Captured, template: Template, seconds: float) -> Localization:
    try:
        deadline = time.monotonic() + seconds
        return localize(kernel.program, template, deadline=deadline, fault=kernel.error, read_source=read_source)
    except TemplateError as error:
        return Localization(None, None, f"the template failed: {error}")


def graded(found: Localization, marked: list[int]) -> str:
    if not marked:
        return "unmarked"
    if found.location is None:
        return "none"
    line = found.location.line
    off = min(abs(line - mark) for mark in marked)
    if off == 0:
        return "exact"
    if any(label.line in marked for label in found.labels):
        return "label"
    return "near" if off <= 2 else "wrong"


if __name__ == "__main__":
    sys.exit(main())
