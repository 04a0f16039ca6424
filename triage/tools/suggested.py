"""The edit that made a wrong result right, as a suggested change of the script."""

from __future__ import annotations

import os
from pathlib import Path

from triage.experiment.repairs import Edit
from triage.fixes.files import read
from triage.fixes.tree import unified
from triage.knowledge.judge import Observability, judge
from triage.knowledge.match import record_of_hazard
from triage.lints.hazard import Hazard
from triage.model import Fix, to_json
from triage.tools.base import Repair, Work

#: `--apply` never writes it into the file
NOT_APPLIED = "a change that makes the result agree is only shown: where the reference is wrong, it would make the kernel wrong, too"
TRIED = "tried on a copy: computed on the CPU, the result then agrees with the reference, also with other inputs"


def suggested(work: Work, source: str, path: str, edit: Edit, hazard: Hazard) -> tuple[Repair, ...]:
    """For the finding that `hazard` leads to; nothing where the file is not any more what `source` says, or no rule knows it."""
    file = read(path)
    found = judge([record_of_hazard(to_json(hazard), hazard.about)], work.facts, work.rules, _seen(work))
    finding = next((finding for finding in found if finding.rule), None)
    if file is None or file.text != source or finding is None:
        return ()
    folder = str(Path(work.options.cwd).absolute())
    root = folder if Path(path).is_relative_to(folder) else os.path.dirname(path)
    after = edit.apply(source)
    patch = unified({path: source}, {path: after}, root)
    command = f"triage resume {work.case.path} --step {work.number}"
    fix = Fix(f"change {edit.says}", TRIED, patch, "passed", "matches", command)
    return (Repair(finding.rule or "", finding.location, (fix,), root=root, why=NOT_APPLIED),)


def _seen(work: Work) -> Observability:
    return Observability(tilelang=work.facts.get("tilelang.version"), read_source=work.read_source)
