"""What a session comes to: its findings, or their absence, as the report object."""

from __future__ import annotations

from typing import Any

from triage.findings import MADE_UP
from triage.model import Environment, Finding, NotChecked, State, StepStatus
from triage.report.build import build_report
from triage.report.contract import Report
from triage.report.words import NOT_BUILT
from triage.session import Session
from triage.tools.given_references import AGAINST
from triage.tools.observe import NO_VALUES, NOT_COMPARED, ONLY_LAUNCHES
from triage.tools.registry import SPECS


def build(session: Session) -> Report:
    """The report of everything known by now."""
    findings = session.findings()
    run = session.facts().get("run", {})
    if not any(f.level == "fault" for f in findings):
        stopped = any(f.cause == MADE_UP for f in findings)
        findings.append(_without_fault(session, run, stopped))
    return build_report(
        session.subject,
        _environments(session),
        findings,
        session.state.steps,
        session.gather("facts"),
        session.gather("artifacts"),
        tuple(dict.fromkeys(session.gather("checked"))),
        _not_checked(session),
        sources={file: text for file in session.sources if (text := session.read_source(file)) is not None},
        case=str(session.case.path),
    )


def _without_fault(session: Session, run: dict[str, Any], stopped: bool) -> Finding:
    """The verdict where no rule and no error says that something is wrong; `stopped` by a check of made-up values."""
    status = run.get("run.status")
    if status != "succeeded" and not stopped:
        if status is None:
            while_ = f"while the step {session.running!r} was running" if session.running else "before the first step"
            return Finding(
                State.UNKNOWN, None, "No conclusion yet", f"triage was stopped {while_}; `triage resume` goes on."
            )
        return Finding(
            State.UNKNOWN, None, "No cause was found", f"The script ended with status {status}, and nothing says why."
        )
    kernels = len(session.kernels)
    if not kernels:
        return Finding(
            State.HEALTHY,
            None,
            "The script ran, but it built no kernel",
            "No kernel was captured, so nothing about a kernel was checked. If the file only defines kernels, say which "
            "to build: `triage run kernel.py --call 'make_kernel(1024)'`.",
        )
    some = f"{kernels} kernel{'s' * (kernels != 1)}"
    if stopped and run.get("twin.verdict") == "matched":  # there the check decided over computed values
        why = f"The script ran to its end on the CPU twin, and built {some}."
        return Finding(State.HEALTHY, None, f"No fault was found{_of_values(run)}", why)
    if stopped:
        why = f"The script built {some}, and stopped at its own check of values that the virtual device made up."
        return Finding(State.HEALTHY, None, "No fault was found up to the script's own check", why)
    return Finding(
        State.HEALTHY,
        None,
        f"No fault was found{_of_values(run)}",
        f"The script ran to its end and built {some}.{_said_no(run)}",
    )


def _said_no(run: dict[str, Any]) -> str:
    """A comparison that did not agree is the script's to judge, where it went on; the reader should know."""
    where = run.get("run.said_no")
    return f" It was told that results differ, and went on: {where}." if where else ""


def _of_values(run: dict[str, Any]) -> str:
    """What is known of values where no fault was found."""
    agreed = "; its launches agree with the given reference" if run.get("reference.agreed") else ""
    if not run.get("launches.virtual"):
        return agreed
    if run.get("twin.verdict") == "matched":
        return f"{agreed} on the CPU twin" if agreed else "; what the script compares agrees on the CPU twin"
    if run.get("twin.status") == "succeeded" and not run.get("twin.reason"):
        return "; its values were computed on the CPU twin, and no check of the script failed there"
    return f"; values were not computed ({run.get('twin.reason') or 'no GPU'})"


def _environments(session: Session) -> list[Environment]:
    known = {e.id: e for e in session.gather("environments")}
    return list(known.values())


def _not_checked(session: Session) -> list[NotChecked]:
    """What tools left unchecked, then the steps that were skipped or broke, each node once."""
    lines = list(dict.fromkeys(session.gather("not_checked")))
    run = session.facts().get("run", {})
    if run.get("twin.computed") and not run.get("twin.reason"):  # the twin says itself what it does not see
        lines = [
            line
            for line in lines
            if line.what not in (NO_VALUES, ONLY_LAUNCHES)
            and not line.what.endswith(NOT_COMPARED)
            and not line.what.startswith(AGAINST)
        ]
    done = {s.node for s in session.state.steps if s.status is StepStatus.RAN}
    undone = {s.node: s for s in session.state.steps if s.status is not StepStatus.RAN and s.node not in done}
    planned = [SPECS[s.tool].title for s in undone.values() if not SPECS[s.tool].built]
    for step in undone.values():
        if SPECS[step.tool].built:
            why = step.detail or str(step.status)
            lines.append(NotChecked(SPECS[step.tool].title, why, step.elsewhere or step.command))
    if planned:
        lines.append(NotChecked("; ".join(planned), NOT_BUILT))
    if session.broken_rules:
        files = sorted({problem.file for problem in session.broken_rules})
        lines.append(NotChecked(f"the rules in {', '.join(files)}", "they cannot be read", "triage rules check"))
    if session.state.left_out:
        lines.append(NotChecked(f"{len(session.state.left_out)} more kernels one by one", "too many suspects"))
    return lines
