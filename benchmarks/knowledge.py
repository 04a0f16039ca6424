"""How right the rules are on the labelled corpora: `python benchmarks/knowledge.py`, a quarter of an hour on two cores.

Asks triage about every labelled kernel of `fixtures/kernels` (`triage run`, no GPU) and every public report of `fixtures/reports`
(`triage explain`, of its text alone where it pasted the decisive line, else of the report's words), prints the shares, and
writes each answer to `fixtures/answers.json`, from which `docs/coverage.md` counts hits and precision of each rule.
`--reports` asks the reports only and keeps the kernels' answers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "quality")]

import corpus  # noqa: E402
import reports  # noqa: E402

from triage.explaining import explain_text, load_knowledge  # noqa: E402
from triage.knowledge.files import rules_root  # noqa: E402

ANSWERS = ROOT / "fixtures" / "answers.json"


def shown(report: dict[str, Any]) -> str:
    """What is asked: the pasted text if it holds the decisive line, else all that the report says."""
    if report["complete"]:
        return str(report["text"])
    return f"{report['prose']}\n\n```\n{report['text']}\n```\n" if report["text"] else str(report["prose"])


def ask_reports() -> list[dict[str, Any]]:
    knowledge = load_knowledge(rules_root())
    answers = []
    for report in reports.load():
        said = explain_text(shown(report), knowledge)
        rule = said.finding.rule if said.finding else None
        verdict = reports.verdict(said, report)
        answers.append({"corpus": "reports", "case": report["id"], "rule": rule, "verdict": verdict})
    return answers


def ask_kernels() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        given = corpus.ask_all(corpus.load(), Path(folder))
    return [
        {
            "corpus": "kernels",
            "case": answer.case.name,
            "rule": answer.rule,
            "verdict": "right" if answer.right_category else "unanswered" if not answer.category else "wrong",
            "line": answer.right_line if answer.case.line else None,
            "state": answer.state,
            "localized": answer.right_localized if answer.state == "localized" else None,
        }
        for answer in given
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--reports", action="store_true", help="ask the reports only")
    only_reports = parser.parse_args().reports
    before = json.loads(ANSWERS.read_text("utf-8")) if only_reports and ANSWERS.exists() else []
    kernels = [a for a in before if a["corpus"] == "kernels"] if only_reports else ask_kernels()
    answers = [*kernels, *ask_reports()]
    ANSWERS.write_text("[\n" + ",\n".join(json.dumps(answer) for answer in answers) + "\n]\n", "utf-8")
    for name in ("kernels", "reports"):
        some = [answer for answer in answers if answer["corpus"] == name]
        counts = Counter(answer["verdict"] for answer in some)
        answered = counts["right"] + counts["wrong"]
        ruled = sum(answer["rule"] is not None for answer in some)
        print(
            f"{name}: {len(some)} asked, {answered} answered, {counts['right']} in the right category, {ruled} by a rule"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
