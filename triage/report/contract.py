"""The shape of the report that `--json` prints: key names are a promise to other tools.

Additions are free, renames are not. The JSON Schema (`schema.report_schema`) and the check of a report that is read
back (`json_report.read`) are both generated from these types, so there is no second description to keep in step.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from triage.model import Caliber, Category, Confidence, FoundBy, Owner, State, StepOutcome, StepStatus

SubjectKind = Literal["script", "log", "junit", "profile", "dump"]


class Subject(TypedDict):
    """What was looked at. `sha256` is of the file's bytes, empty where there is no single file."""

    kind: SubjectKind
    path: str
    sha256: str
    argv: list[str]


class EnvironmentEntry(TypedDict):
    id: str
    python: str
    tilelang: str | None
    torch: str | None
    ran_on: str
    details: NotRequired[dict[str, Any]]


class LocationEntry(TypedDict):
    """A place in the user's file; `line` and `column` count from 1."""

    file: str
    line: int
    column: int | None
    snippet: str | None
    function: str | None
    found_by: FoundBy | None


class LabelEntry(TypedDict):
    file: str
    line: int
    text: str


class QuoteEntry(TypedDict):
    """Verbatim text; `line` counts from 1 in `artifact`."""

    text: str
    artifact: str | None
    line: int | None


class FixEntry(TypedDict):
    title: str
    detail: str
    patch: str | None
    verified: Literal["passed", "failed", "not-run"]
    level: str | None
    by: str | None


class SwitchSettingEntry(TypedDict):
    """A switch and what it was set to. `effect` is what it does to the result of a correct kernel."""

    what: str
    was: str
    now: str
    effect: Literal["preserves", "reorders-floats", "changes-result"]
    cost: str
    file: str | None
    line: int | None


class SwitchSetEntry(TypedDict):
    """Settings with which the fault goes, none of which can be left out. `level` is how far the kernel then comes."""

    settings: list[SwitchSettingEntry]
    effect: Literal["preserves", "reorders-floats", "changes-result"]
    passes: list[str]
    blame: str
    level: Literal["lowers", "builds"]


class NeighbourEntry(TypedDict):
    """The nearest value that works, everything else unchanged."""

    kind: Literal["threads", "num_stages", "architecture", "dtype", "extent"]
    what: str
    was: str
    now: str


class NotCheckedEntry(TypedDict):
    what: str
    why: str
    command: str | None


class Excerpt(TypedDict):
    """Consecutive lines of a user's file, `first` being the number of `lines[0]`."""

    file: str
    first: int
    lines: list[str]


class Verdict(TypedDict):
    """One finding as the report shows it.

    `basis` says where the conclusion comes from: `measured here`, `measured on DEVICE`, `static` or `not run`.
    `excerpts` holds the source around the location and the labels, so that a report can be drawn again where the
    files are not.
    """

    state: State
    category: Category | None
    stage: str | None
    rule: str | None
    cause: str | None
    title: str
    summary: str
    location: LocationEntry | None
    labels: list[LabelEntry]
    quote: QuoteEntry | None
    owner: Owner
    confidence: Confidence
    signature: str
    known_issues: list[KnownIssueEntry]
    fixes: list[FixEntry]
    checked: list[str]
    not_checked: list[NotCheckedEntry]
    why: NotRequired[str]
    about: NotRequired[str]
    basis: NotRequired[str]
    captures: NotRequired[dict[str, Any]]
    excerpts: NotRequired[list[Excerpt]]
    switches: NotRequired[list[SwitchSetEntry]]
    neighbours: NotRequired[list[NeighbourEntry]]
    explained_by: NotRequired[str | None]


class KnownIssueEntry(TypedDict):
    """A fault of the compiler that upstream knows and that looks like this one; `also` names further triggers of its cause.

    `standing` says what the installed release has to do with it, `says` the same as a sentence. `affected` holds specifiers of
    releases, each an alternative; `switches` maps names to the values with which the fault does not come.
    """

    id: str
    url: str
    also: list[str]
    title: str
    cause: str
    standing: Literal["affected", "unseen", "unsure", "not-affected"]
    affected: list[str]
    fixed_in: str | None
    provided: str | None
    switches: dict[str, Any]
    change: str | None
    evidence: list[str]
    says: str


class Note(TypedDict):
    """Advice: worth knowing, without weight for the verdict or the exit status."""

    rule: str | None
    title: str
    location: LocationEntry | None
    summary: NotRequired[str]
    fixes: NotRequired[list[FixEntry]]


class WalkStep(TypedDict):
    node: str
    tool: str
    about: str
    env: str
    status: StepStatus
    outcome: StepOutcome
    why: str
    seconds: float
    command: str
    elsewhere: str | None
    number: NotRequired[int]
    detail: NotRequired[str]


class FactEntry(TypedDict):
    name: str
    about: str
    value: Any
    unit: str | None
    caliber: Caliber
    env: str
    source: str
    step: NotRequired[int]


class ArtifactEntry(TypedDict):
    """A file that a step left; `picture` is its text if it is a small drawing, else empty."""

    path: str
    kind: str
    sha256: str
    picture: NotRequired[str]


class Report(TypedDict):
    """The whole report. `case` is the case directory, where report.md and the artifacts lie."""

    schema: str
    subject: Subject
    environments: list[EnvironmentEntry]
    verdict: Verdict
    other_findings: list[Verdict]
    notes: list[Note]
    walk: list[WalkStep]
    facts: list[FactEntry]
    artifacts: list[ArtifactEntry]
    case: NotRequired[str | None]
    triage: NotRequired[str]
