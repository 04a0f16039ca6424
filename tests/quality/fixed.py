"""What triage says of injected faults, and whether the fixes that it calls verified restore the original."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import ROOT
from inject import Injection
from judge import Judge, Judgement, PatchError, apply, write

LIMIT = 600
#: the verdict where triage itself failed; `output.txt` of the case says how
NO_REPORT: dict[str, Any] = {"state": "no-report", "rule": None, "location": None, "labels": [], "fixes": []}


@dataclass(frozen=True)
class Fixed:
    """The answer to one injection; `judgements` belong to the patches that are called verified, in their order."""

    injection: Injection
    verdict: dict[str, Any]
    patches: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    seconds: float

    @property
    def is_fault(self) -> bool:
        """Whether the injection did any harm that shows without a GPU."""
        return self.verdict["state"] != "healthy"

    @property
    def line(self) -> str:
        """`exact` if the verdict is about the injected line, `label` if it names that line as a second place."""
        if self._at(self.verdict["location"]) == self.injection.place:
            return "exact"
        return "label" if self.injection.place in map(self._at, self.verdict["labels"]) else "other"

    @property
    def wrong(self) -> list[tuple[str, Judgement]]:
        """Patches that are called verified and are no restoration."""
        return [(p, j) for p, j in zip(self.patches, self.judgements, strict=True) if not j.restored]

    @staticmethod
    def _at(place: dict[str, Any] | None) -> tuple[str, int] | None:
        return (os.path.basename(place["file"]), place["line"]) if place else None

    def row(self) -> str:
        at = self._at(self.verdict["location"])
        found = f"{at[0]}:{at[1]}" if at else "-"
        how = " ".join(j.how for j in self.judgements) or "-"
        tried = ",".join(f["verified"] for f in self.verdict["fixes"] if f["patch"]) or "-"
        return (
            f"{self.injection.kind:19} {self.injection.name:14} {self.verdict['state']:10} {self.verdict['rule'] or '-':7} "
            f"{found:20} {self.line:5} {self.injection.place[1]:3} {len(self.patches)} verified of [{tried}]  "
            f"{how}  {self.seconds:.0f} s"
        )


def try_one(injection: Injection, folder: Path, judge: Judge, options: Sequence[str] = ("--fix",)) -> Fixed:
    """Run triage on the broken script, and judge every patch that it calls verified."""
    write(injection.broken, folder / "work")
    report = folder / "report.json"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TILELANG_", "TL_", "TVM_"))}
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "triage", "run", injection.broken.main, "--json", str(report), *options],
        cwd=folder / "work",
        env={**env, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    seconds = time.monotonic() - start
    (folder / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    if not report.is_file() or "Traceback" in done.stderr:
        return Fixed(injection, NO_REPORT, (), (), seconds)
    verdict = json.loads(report.read_text(encoding="utf-8"))["verdict"]
    patches = tuple(f["patch"] for f in verdict["fixes"] if f["verified"] == "passed" and f["patch"])
    judgements = tuple(judge_patch(p, injection, folder / f"patched{n}", judge) for n, p in enumerate(patches))
    return Fixed(injection, verdict, patches, judgements, seconds)


def judge_patch(patch: str, injection: Injection, folder: Path, judge: Judge) -> Judgement:
    try:
        patched = apply(patch, injection.broken, folder)
    except PatchError as error:
        return Judgement("not-restored", str(error))
    return judge.judge(injection.healthy, patched)
