"""What the known issues of upstream add to a finding: a sentence, an upgrade, a switch; seldom a cause. Pure.

A fingerprint agrees if nothing that was seen speaks against it: facts about the kernel that nobody could see rule out
nothing, but a text that is not there does. What it then adds depends on how much it proves:

    any entry                                   a sentence in `known_issues`, which says if the installed release has it
    … without `provided`, release affected      what to do becomes a step of its own: the upgrade, the switch, the change
    `specific`, release affected or unseen      the root cause names the finding's group, so two triggers are one fault
    `specific`, release affected                whose fault it is, where no rule could say

A release that does not have the fault is no reason to tell of it, except where the text is the fault's own: whoever looks that
up finds the thread, and should be told that it is not this.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from triage import conditions
from triage.knowledge.match import Record, raised_among, search, typed, user_raised
from triage.knowledge.upstream import Issue, Issues, Standing, entry, remedies
from triage.model import Confidence, Finding, Fix, Owner
from triage.versions import VersionError, satisfies

ARCH = re.compile(r"sm_(\d+)")


def suspects(issues: Issues, finding: Finding, record: Record, facts: Mapping[str, Any]) -> tuple[Issue, ...]:
    """The entries whose fingerprint agrees with a finding about this record, those that prove most first."""
    found = [issue for issue in issues.candidates(finding.rule) if agrees(issue, finding, record, facts)]
    return tuple(sorted(found, key=lambda issue: (not issue.specific, issue.provided is not None)))


def agrees(issue: Issue, finding: Finding, record: Record, facts: Mapping[str, Any]) -> bool:
    """Whether nothing that was seen speaks against this entry."""
    captures = dict(finding.captures)
    if issue.text is not None:
        said = _said(issue, record)
        if said is None:
            return False
        captures |= said
    seen = conditions.all_hold(issue.when, {**facts, **record.fields, **captures})
    return seen.holds and _of_kernel(issue, facts) and _beside(issue, facts.get("installed.versions") or {})


def _said(issue: Issue, record: Record) -> dict[str, Any] | None:
    """What the entry's own text captures in an error; None if it is another one, or the script's own words."""
    if record.text is None or record.error is None or user_raised(record.error):
        return None
    try:
        found = search(issue.text or "", record.text)
    except TimeoutError:
        return None
    if found is None or raised_among(issue.raised_in, record.error)[0] is False:
        return None
    return {name: typed(value) for name, value in found.groupdict().items() if value is not None}


def _proven(issue: Issue, record: Record) -> bool:
    """Whether nothing else looks like this: the entry is specific, and what raised the error was seen where it says so."""
    if not issue.raised_in:
        return issue.specific
    return issue.specific and record.error is not None and raised_among(issue.raised_in, record.error)[0] is True


def _beside(issue: Issue, installed: Mapping[str, str]) -> bool:
    """Whether the distributions installed beside may be those of the issue; one that was not seen may be."""
    for name, specifier in issue.beside:
        try:
            if name in installed and not satisfies(installed[name], specifier):
                return False
        except VersionError:
            continue  # a version that nobody can compare says nothing
    return True


def _of_kernel(issue: Issue, facts: Mapping[str, Any]) -> bool:
    """Whether the kernel, or of several one, may be such a kernel; what was not seen may be."""

    def words(name: str) -> list[str] | None:
        value = facts.get(f"kernel.{name}", facts.get(f"kernels.{name}"))
        return None if value is None else str(value).split()

    targets, archs, ops, configs = words("target"), words("arch"), words("ops"), words("configs")
    if issue.target and targets and not set(targets) & set(issue.target):
        return False
    if issue.arch and archs:
        first, last = issue.arch
        numbers = [int(found[1]) for name in archs if (found := ARCH.match(name))]
        if not any(first <= number <= last for number in numbers):
            return False
    if ops is not None and not set(issue.ops) <= set(ops):
        return False
    return configs is None or set(issue.configs) <= set(configs)


def with_issues(
    finding: Finding, record: Record, facts: Mapping[str, Any], issues: Issues, installed: str | None
) -> Finding:
    """The finding with what is known upstream. `installed` is the release of tilelang that ran, None if not seen."""
    standing = {issue: issue.standing(installed) for issue in suspects(issues, finding, record, facts)}
    told = [issue for issue, how in standing.items() if how is not Standing.NOT_AFFECTED or issue.specific]
    if not told:
        return finding
    proven = next((i for i in told if standing[i] is not Standing.NOT_AFFECTED and _proven(i, record)), None)
    if proven:  # what only may be the cause is none beside it
        told = [issue for issue in told if issue.provided is None]
    steps = {issue: remedies(issue, installed, change=finding.rule is None) for issue in told}
    first = dict.fromkeys(step for issue, ways in steps.items() if issue.specific for step in ways)
    rest = dict.fromkeys(step for issue, ways in steps.items() if not issue.specific for step in ways)
    finding = replace(
        finding,
        known_issues=tuple(entry(first, installed, also) for first, *also in _triggers(told)),
        fixes=(*map(Fix, first), *finding.fixes, *map(Fix, rest)),
    )
    return _of_cause(finding, proven, standing[proven], record.certain) if proven else finding


def _triggers(told: Iterable[Issue]) -> list[list[Issue]]:
    """The entries, those together that differ in nothing a reader could tell them apart by: triggers of one root cause."""
    groups: dict[tuple[str, str | None], list[Issue]] = {}
    for issue in told:
        groups.setdefault((issue.cause, issue.provided), []).append(issue)
    return list(groups.values())


def _of_cause(finding: Finding, issue: Issue, standing: Standing, certain: bool) -> Finding:
    """The finding under the name of its root cause, which is what groups failures over texts, stages and kernels.

    That the release is known to have the fault makes it likely, even where no rule was checked against that release.
    """
    finding = replace(finding, cause=issue.cause, signature=signature_of(issue.cause))
    if finding.rule is None:
        finding = replace(finding, title=f"{issue.title[:1].upper()}{issue.title[1:]}")
    if standing is not Standing.AFFECTED:
        return finding
    # without a rule an owner is what the stage suggests
    unproven = finding.owner is Owner.UNKNOWN or finding.rule is None
    owner = Owner(issue.owner) if issue.owner and unproven else finding.owner
    likely = certain and finding.confidence is Confidence.POSSIBLE
    return replace(finding, owner=owner, confidence=Confidence.LIKELY if likely else finding.confidence)


def signature_of(cause: str) -> str:
    """16 hex digits that all triggers of one root cause have in common."""
    return hashlib.sha256(f"upstream\n{cause}".encode()).hexdigest()[:16]
