"""`triage run --fix` and `--apply`: the verified fix of a walk as a patch file, or written into the user's files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from triage.fixes.files import FileChangedError, replace_all, unchanged
from triage.model import State
from triage.report.contract import Report
from triage.session import Session
from triage.tools.base import Repair


class NotFixed(Exception):
    """There is nothing to write; the message says why and what to do. `refused`: the start itself does not allow it."""

    def __init__(self, message: str, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True)
class Written:
    """The patch file, the folder in which it applies, and the files that were changed (none without `--apply`)."""

    patch: Path
    root: str
    changed: tuple[str, ...] = ()


def deliver(session: Session, report: Report, apply: bool) -> Written:
    """Write the patch of the one verified fix beside the report; with `apply`, change the files as well.

    Raises `NotFixed`.
    """
    verdict = report["verdict"]
    if verdict["state"] == State.HEALTHY:
        raise NotFixed("no fault was found, so there is nothing to fix", refused=True)
    if verdict["state"] == State.UNKNOWN:
        raise NotFixed("the cause of the fault is unknown, so nothing is changed; see the report", refused=True)
    repair = _repair(session, verdict["rule"])
    if repair is None:
        why = next((s.detail for s in reversed(session.state.steps) if s.tool == "verify-fix"), "")
        raise NotFixed(
            f"no change was tried for this fault{f' ({why})' if why else ''}; the report says what to look at"
        )
    if not repair.files:
        raise NotFixed(f"no fix is verified: {repair.why}; the report shows what was tried")
    changed = [file.path for file in repair.files if not unchanged(file.path, file.before)]
    if changed:
        raise NotFixed(f"{', '.join(changed)} changed since the fix was tried; run triage again", refused=True)
    patch = session.case.path / f"{Path(session.options.script).stem}.triage.patch"
    patch.write_text(repair.fixes[0].patch or "", encoding="utf-8", newline="")
    if not apply:
        return Written(patch, repair.root)
    try:
        replace_all([(file.path, file.before, session.case.get(file.after)) for file in repair.files])
    except FileChangedError as error:
        raise NotFixed(f"{error}; nothing was changed, the patch is {patch}", refused=True) from None
    return Written(patch, repair.root, tuple(file.path for file in repair.files))


def _repair(session: Session, rule: str | None) -> Repair | None:
    """What was tried for the finding that the report puts first."""
    repairs: tuple[Repair, ...] = session.gather("repairs")
    return next((one for one in reversed(repairs) if one.rule == rule), None)
