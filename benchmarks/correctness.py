"""Whose fault, and which statement: `python benchmarks/correctness.py [--jobs N] [--budget S] [NAME…]` over `tests/quality/wrong`.

Half an hour on two cores. Prints an answer a line, then who was accused of what, and how the place was found.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "quality")]

import wrong_corpus  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    cases = [case for case in wrong_corpus.load() if not asked.names or case.name in asked.names]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        answers = []
        for answer in pool.map(lambda case: wrong_corpus.ask(case, Path(folder), asked.budget), cases):
            answers.append(answer)
            print(
                f"{answer.case.name:28} {answer.case.culprit:10} → {answer.culprit:10} {answer.state:10} {answer.rule or '':7} "
                f"line {answer.line} of {list(answer.case.lines)} labels {list(answer.labels)} {answer.how} {answer.seconds:.0f} s",
                flush=True,
            )
    if asked.json:
        asked.json.write_text(json.dumps([asdict(answer) for answer in answers], indent=1), "utf-8")
    told = Counter((answer.case.culprit, answer.culprit) for answer in answers)
    for (right, said), count in sorted(told.items()):
        print(f"culprit {right}: said {said} {count} times")
    right = sum(answer.right_culprit for answer in answers)
    print(f"culprit right: {right} of {len(answers)}")
    wrong = [answer for answer in answers if answer.case.culprit in ("program", "comparison")]
    for how in sorted({answer.how for answer in wrong}):
        some = [answer for answer in wrong if answer.how == how]
        localized = [answer for answer in some if answer.state == "localized"]
        print(
            f"{how}: {len(some)} faults, line right {sum(a.right_line for a in some)}, among the labels {sum(a.among_labels for a in some)}; "
            f"localized {len(localized)}, right {sum(a.right_line for a in localized)}"
        )
    accused = [answer.case.name for answer in answers if answer.case.culprit == "none" and answer.state != "healthy"]
    print(f"right scripts accused: {accused or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
