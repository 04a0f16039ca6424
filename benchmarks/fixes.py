"""How many injected faults get a verified fix, and whether it restores the original: `python benchmarks/fixes.py`.

    python benchmarks/fixes.py [--kind NAME…] [--script NAME…] [--seed 1] [--every 1] [--jobs 2] [--keep FOLDER]

Faults of every kind (`tests/quality/inject.py`) are put into ten healthy scripts, one a case, and `triage run --fix`
answers each. A row: kind, script, verdict with its line, how that meets the injected one,
what became of the patches, and how each that is called verified was judged (`tests/quality/judge.py`). An injection that
triage finds healthy shows no fault without a GPU, and is counted apart. The two figures at the end have limits: 60 % of
the faults with a verified fix, and 5 % of such fixes that do not restore the meaning.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "quality")]

from fixed import Fixed, try_one  # noqa: E402
from inject import KINDS, healthy_scripts, injections  # noqa: E402
from judge import Judge  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only this kind of fault (repeatable)")
    parser.add_argument(
        "--script", action="append", choices=sorted(healthy_scripts()), help="only this script (repeatable)"
    )
    parser.add_argument("--seed", type=int, default=1, help="where the faults are made (1)")
    parser.add_argument("--every", type=int, default=1, help="only one case in so many (1)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="leave scripts, reports and patches in this folder")
    parser.add_argument("--no-fixes", action="store_true", help="without --fix: only what triage says of the faults")
    options = parser.parse_args()
    cases = [
        case for case in injections(options.seed)
        if case.kind in (options.kind or KINDS) and case.name in (options.script or healthy_scripts())
    ][:: options.every]  # fmt: skip
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fixes-") as scratch, ThreadPoolExecutor(options.jobs) as pool:
        folder = (options.keep or Path(scratch)).resolve()
        judge = Judge(folder / "judged")
        words = [] if options.no_fixes else ["--fix"]
        answers = []
        for answer in pool.map(lambda case: try_one(case, folder / case.id, judge, words), cases):
            print(answer.row(), flush=True)
            answers.append(answer)
    print_totals(answers)
    print(f"{time.monotonic() - start:.0f} s, {options.jobs} at a time")


def print_totals(answers: Sequence[Fixed]) -> None:
    faults = [a for a in answers if a.is_fault]
    print(f"\n{'kind':19} faults  line named  verified  restored  not restored  no fault seen")
    for kind in KINDS:
        of_kind = [a for a in answers if a.injection.kind == kind]
        seen = [a for a in of_kind if a.is_fault]
        if of_kind:
            restored = sum(not a.wrong and bool(a.patches) for a in seen)
            print(
                f"{kind:19} {len(seen):6}  {sum(a.line != 'other' for a in seen):10}  {sum(bool(a.patches) for a in seen):8}  "
                f"{restored:8}  {sum(bool(a.wrong) for a in seen):12}  {len(of_kind) - len(seen):13}"
            )
    for answer in answers:
        for patch, judgement in answer.wrong:
            print(f"\nnot restored: {answer.injection.id}: {judgement.why}\n{patch}")
    patches = [j for a in answers for j in a.judgements]
    wrong = sum(not j.restored for j in patches)
    ways = collections.Counter(j.how for j in patches)
    print(f"\nstates {dict(collections.Counter(a.verdict['state'] for a in answers))}, judged {dict(ways)}")
    print(f"faults with a verified fix: {share(sum(bool(a.patches) for a in faults), len(faults))} (at least 60 %)")
    print(f"verified patches that do not restore: {share(wrong, len(patches))} (at most 5 %)")


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}, {part / whole:.0%}" if whole else "none"


if __name__ == "__main__":
    main()
