"""Faults of the compiler that upstream knows, with the releases that have them: `rules/reference/upstream.toml`.

    schema, releases                     # head: every release of tilelang, the oldest first

    [[issue]]
    id        = "owner/repository#number"                        # required, as all of the next four
    title     = "what goes wrong, as the author of a kernel meets it"
    cause     = "words-joined-by-hyphens"                        # the root cause: two triggers of one have the same
    affected  = ["<0.1.9"]                                       # releases of tilelang: PEP 440, each an alternative
    evidence  = ["thread", "commit", "run"]                      # where it was established
    fixed_in  = "0.1.9"                                          # from here on no release has it; left out where none is known
    reported  = "0.1.8"                                          # where no fix is known: the newest release known to have it
    outcome   = "works" | "rejected" | "explained"               # what that release makes of such a kernel; default works
    now       = ["TLG038"]                                       # rules about what it then says, if it refuses or explains
    switches  = {"tl.disable_tma_lower" = true}                  # of `switches.toml`: with one of them set so the fault does not come
    change    = "what to change in the kernel"

    # the fingerprint: whatever is given must agree
    rules     = ["TLG051"]                                       # one of these rules matched …
    text      = '''regular expression'''                         # … or the error itself says this (both: both must hold)
    raised_in = ["src/op/copy.cc"]                               # as in rules; goes with `text`
    when      = ["identifier == mbarrier"]                       # conditions on captures, fields and facts
    target    = ["cuda"]                                         # kinds of targets
    arch      = [90, 90]                                         # first and last compute capability
    ops       = ["gemm"]                                         # tile operators, all of which the kernel has
    configs   = ["tl.disable_warp_specialized"]                  # pass configs, all of which the kernel sets (not to false)
    beside    = {apache-tvm-ffi = ">=0.1.10"}                    # other distributions, each with a specifier of its version
    provided  = "what the fingerprint cannot show, and the reader has to look at"
    specific  = true                                             # nothing else looks like this: see `known_issues`
    owner     = "compiler"                                       # of a specific one: whose fault it is

An entry adds a sentence to a finding, with the release and the switch to try. It never says that a fault is the compiler's
unless it is `specific` and the installed release has it. `issue_page` shows the table to readers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from triage import conditions
from triage.knowledge.files import CODE, FileError, file_of, parse, read_text
from triage.knowledge.issue_page import FILE
from triage.knowledge.rule import Problem, RuleErrors
from triage.knowledge.switches import SwitchTableError, load_switches
from triage.versions import VersionError, key, satisfies

SCHEMA = "triage.upstream/1"
ID = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")
CAUSE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
OUTCOMES = ("works", "rejected", "explained")
#: `kernel` where the later release only says better what is wrong with it
OWNERS = ("compiler", "kernel", "limitation", "environment")
EVIDENCE = ("thread", "commit", "run")
REQUIRED = ("id", "title", "cause", "affected", "evidence")


class Standing(StrEnum):
    """What the installed release has to do with an issue."""

    AFFECTED = "affected"
    #: which release is installed was not seen
    UNSEEN = "unseen"
    #: a development version on the way to the fix: its number does not tell on which side of it
    UNSURE = "unsure"
    NOT_AFFECTED = "not-affected"


@dataclass(frozen=True)
class Issue:
    """One entry; the head of this module says what its keys mean."""

    id: str
    title: str
    cause: str
    affected: tuple[str, ...]
    evidence: tuple[str, ...]
    fixed_in: str | None = None
    reported: str | None = None
    outcome: str = "works"
    now: tuple[str, ...] = ()
    switches: tuple[tuple[str, Any], ...] = ()
    change: str | None = None
    rules: tuple[str, ...] = ()
    text: str | None = None
    raised_in: tuple[str, ...] = ()
    when: tuple[conditions.Condition, ...] = ()
    target: tuple[str, ...] = ()
    arch: tuple[int, ...] = ()
    ops: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()
    provided: str | None = None
    specific: bool = False
    owner: str | None = None

    @property
    def url(self) -> str:
        """The thread. The same address serves issues and pull requests."""
        repository, _, number = self.id.partition("#")
        return f"https://github.com/{repository}/issues/{number}"

    def standing(self, installed: str | None) -> Standing:
        """What this release has to do with the issue; a version that cannot be read counts as unseen."""
        if installed is None:
            return Standing.UNSEEN
        try:
            if self.affects(installed):
                return Standing.AFFECTED
            leads = self.fixed_in is not None and _leads_to(installed, self.fixed_in)
        except VersionError:
            return Standing.UNSEEN
        return Standing.UNSURE if leads else Standing.NOT_AFFECTED

    def affects(self, release: str) -> bool:
        """Whether a release has the fault. Raises `VersionError`."""
        return any(satisfies(release, specifier) for specifier in self.affected)

    def is_fixed(self, installed: str) -> bool:
        """Whether the installed release has the fix, in contrast to one that never had the fault."""
        try:
            return self.fixed_in is not None and key(installed) >= key(self.fixed_in)
        except VersionError:
            return False


def _leads_to(installed: str, release: str) -> bool:
    """Whether a version is a pre-release or a development version of `release`."""
    have, want = key(installed), key(release)
    return have[0] == want[0] and have < want


@dataclass(frozen=True)
class Issues:
    """All entries, in the order of the file. `releases` are those of tilelang, the oldest first."""

    entries: tuple[Issue, ...] = ()
    releases: tuple[str, ...] = ()

    @cached_property
    def _by_rule(self) -> dict[str | None, tuple[Issue, ...]]:
        codes = {code for issue in self.entries for code in issue.rules} | {None}
        return {code: tuple(i for i in self.entries if not i.rules or code in i.rules) for code in codes}

    def candidates(self, code: str | None) -> tuple[Issue, ...]:
        """The entries that a finding of this rule, or of none, may come from; those by their own text are always among them."""
        return self._by_rule.get(code, self._by_rule[None])


#: for those who know of no table
NO_ISSUES = Issues()


@lru_cache(maxsize=4)
def load_issues(root: Path) -> Issues:
    """Read the table. Raises `RuleErrors` with all problems."""
    issues, problems = read_issues(root)
    if problems := problems + impossible(issues):
        raise RuleErrors(problems)
    return issues


def read_issues(root: Path) -> tuple[Issues, list[Problem]]:
    """The entries that can be read, and every problem with the id of its entry. A folder without the table knows none."""
    path = root / FILE
    if not path.is_file():
        return Issues(), []
    try:
        text = read_text(path)
        data = parse(text, path)
    except FileError as error:
        return Issues(), [Problem(FILE, error.line, error.why)]
    reader = _Reader(text.splitlines())
    return reader.issues(data), reader.problems


#: the type of each key as TOML has it
TYPES: Mapping[str, type] = {
    "id": str, "title": str, "cause": str, "affected": list, "evidence": list, "fixed_in": str, "reported": str, "outcome": str, "now": list,
    "switches": dict, "change": str, "rules": list, "text": str, "raised_in": list, "when": list, "target": list,
    "arch": list, "ops": list, "configs": list, "beside": dict, "provided": str, "specific": bool, "owner": str,
}  # fmt: skip


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value


class _Reader:
    """Reads the parsed table and collects what is wrong with it."""

    def __init__(self, lines: list[str]) -> None:
        self.problems: list[Problem] = []
        self._lines = lines

    def issues(self, data: Mapping[str, Any]) -> Issues:
        if unknown := sorted(data.keys() - {"schema", "releases", "issue"}):
            self._wrong(None, f"unknown key {unknown[0]!r}")
        if data.get("schema") != SCHEMA:
            self._wrong(None, f"schema is {data.get('schema')!r}, expected {SCHEMA!r}")
        for name in ("releases", "issue"):
            if not isinstance(data.get(name, []), list):
                self._wrong(None, f"{name} must be a list")
                data = {key_: value for key_, value in data.items() if key_ != name}
        releases = tuple(data.get("releases", ()))
        if not releases or list(releases) != sorted(releases, key=self._key):
            self._wrong(None, "releases must list every release, the oldest first")
        rows = data.get("issue", [])
        found = [self._issue(row) for row in rows if isinstance(row, dict)]
        if len(found) != len(rows):
            self._wrong(None, "each issue must be an [[issue]] table")
        ids = [issue.id for issue in found if issue]
        for name in sorted({name for name in ids if ids.count(name) > 1}):
            self._wrong(name, "is there twice")
        return Issues(tuple(issue for issue in found if issue), releases)

    def _issue(self, row: Mapping[str, Any]) -> Issue | None:
        before = len(self.problems)
        name = str(row.get("id"))
        for key_, value in row.items():
            if key_ not in TYPES:
                self._wrong(name, f"unknown key {key_!r}; known: {', '.join(TYPES)}")
            elif not isinstance(value, TYPES[key_]) or (isinstance(value, list) and not self._plain(key_, value)):
                self._wrong(name, f"{key_} has the wrong type")
        for key_ in REQUIRED:
            if not row.get(key_):
                self._wrong(name, f"{key_} is missing")
        if len(self.problems) > before:
            return None
        parsed = [self._condition(name, text) for text in row.get("when", ())]
        values = {k: _frozen(v) for k, v in row.items()}
        issue = Issue(**(values | {"when": tuple(c for c in parsed if c)}))
        self._values(issue)
        self._specifiers(issue)
        return issue if len(self.problems) == before else None

    @staticmethod
    def _plain(key_: str, value: list[Any]) -> bool:
        return all(isinstance(item, int if key_ == "arch" else str) for item in value)

    def _condition(self, name: str, text: str) -> conditions.Condition | None:
        try:
            return conditions.parse(text)
        except conditions.ConditionError as error:
            self._wrong(name, f"when: {error}")
            return None

    def _values(self, issue: Issue) -> None:
        if not ID.fullmatch(issue.id):
            self._wrong(issue.id, "the id is not owner/repository#number")
        if not CAUSE.fullmatch(issue.cause):
            self._wrong(issue.id, f"cause {issue.cause!r} is not words of small letters joined by -")
        for value, allowed, what in (
            *((word, EVIDENCE, "evidence") for word in issue.evidence),
            (issue.outcome, OUTCOMES, "outcome"),
            *([(issue.owner, OWNERS, "owner")] if issue.owner else []),
        ):
            if value not in allowed:
                self._wrong(issue.id, f"{what} {value!r} is none of {', '.join(allowed)}")
        if not issue.rules and issue.text is None:
            self._wrong(issue.id, "there is no fingerprint: rules or text")
        if issue.text is None and issue.raised_in:
            self._wrong(issue.id, "raised_in goes with text")
        try:
            re.compile(issue.text or "", re.MULTILINE)
        except re.error as error:
            self._wrong(issue.id, f"text is no regular expression: {error}")
        if issue.specific and issue.provided:
            self._wrong(issue.id, "what only holds if something else does is not specific")
        if issue.specific and not (issue.when or issue.text):
            self._wrong(issue.id, "a rule alone is not specific: text or when must tell this fault from its others")
        if issue.specific != (issue.owner is not None):
            self._wrong(issue.id, "specific and owner belong together")
        if issue.arch and (len(issue.arch) != 2 or issue.arch[0] > issue.arch[1]):
            self._wrong(issue.id, "arch is [first, last]")
        if (issue.outcome == "works") and issue.now:
            self._wrong(issue.id, "now is what a release that rejects or explains says")
        if not (issue.fixed_in or issue.switches or issue.change):
            self._wrong(issue.id, "it must say one of fixed_in, switches and change: else it helps nobody")

    def _specifiers(self, issue: Issue) -> None:
        try:
            for specifier in (*issue.affected, *(wanted for _, wanted in issue.beside)):
                satisfies("0", specifier)
        except VersionError as error:
            self._wrong(issue.id, str(error))

    def _key(self, release: object) -> Any:
        try:
            return key(str(release))
        except VersionError as error:
            self._wrong(None, str(error))
            return key("0")

    def _wrong(self, name: str | None, message: str) -> None:
        line = next((n for n, text in enumerate(self._lines, 1) if name and f'"{name}"' in text), None)
        self.problems.append(Problem(FILE, line, f"{name}: {message}" if name else message))


def impossible(issues: Issues) -> list[Problem]:
    """Entries whose releases cannot be: none affected, the fix among those affected, or a fault that ended without a fix.

    Apart from reading, because it asks every entry about every release, and only who edits the table needs it.
    """
    told = ((issue, _contradiction(issue, issues.releases)) for issue in issues.entries)
    return [Problem(FILE, None, f"{issue.id}: {what}") for issue, what in told if what]


def _contradiction(issue: Issue, releases: tuple[str, ...]) -> str | None:
    affected = [release for release in releases if issue.affects(release)]
    if not affected:
        return f"affected {list(issue.affected)} holds for no release"
    if (issue.fixed_in is None) == (issue.reported is None):
        return "it needs either fixed_in or reported"
    if issue.fixed_in is None and affected[-1] != releases[-1]:
        return f"{releases[-1]} is not affected: say since when, with fixed_in"
    if (issue.fixed_in or issue.reported) not in releases:
        return f"{issue.fixed_in or issue.reported} is no release"
    if issue.fixed_in is not None and key(affected[-1]) >= key(issue.fixed_in):
        return f"{affected[-1]} is affected, and {issue.fixed_in} should have the fix"
    return None


def table_problems(root: Path) -> list[Problem]:
    """Everything wrong with the table, by itself and beside the rules and the switches."""
    issues, problems = read_issues(root)
    problems += impossible(issues)
    switches = root / "reference" / "switches.toml"
    names: frozenset[str] | None = frozenset()
    if switches.is_file():
        try:
            names = frozenset(switch.name for switch in load_switches(switches))
        except SwitchTableError as error:
            problems.append(Problem("reference/switches.toml", error.line, error.why))
            names = None
    return problems + dangling(issues, root, names)


def dangling(issues: Issues, root: Path, switches: frozenset[str] | None) -> list[Problem]:
    """Rules and switches that entries name and that do not exist. `switches` are the names in `switches.toml`, None if unknown."""
    problems = []
    for issue in issues.entries:
        for code in (*issue.rules, *issue.now):
            if not CODE.fullmatch(code) or file_of(code, root) is None:
                problems.append(Problem(FILE, None, f"{issue.id}: there is no rule {code}"))
        problems += [
            Problem(FILE, None, f"{issue.id}: there is no switch {name!r}")
            for name, _ in issue.switches
            if switches is not None and name not in switches
        ]
    return problems


def sentence(issue: Issue, installed: str | None, also: Sequence[Issue] = ()) -> str:
    """What a report says about an issue in view of the installed release, None where that was not seen.

    `also` are further triggers of the same root cause. To upgrade is advised only where the installed release is known to have the fault and a later one is known not to.
    """
    if issue.standing(installed) is Standing.NOT_AFFECTED:
        return f"Not {_names(issue, also)}, which looks the same ({issue.title}): {_why_not(issue, installed)}."
    only_if = f", if {issue.provided}" if issue.provided else ""
    ways = _ways(issue, issue.standing(installed))
    return f"Known issue {_names(issue, also)}{only_if}: {issue.title}. {_known_of(issue, installed)}.{_told(ways)}"


def _names(issue: Issue, also: Sequence[Issue]) -> str:
    return issue.id + (f" (and {', '.join(other.id for other in also)})" if also else "")


def _why_not(issue: Issue, installed: str | None) -> str:
    if installed is not None and issue.is_fixed(installed):
        return f"it is fixed since {issue.fixed_in}, and {installed} is installed"
    return f"{installed} is installed, which does not have it"


def _known_of(issue: Issue, installed: str | None) -> str:
    """What is known of the fix, and of the installed release."""
    standing = issue.standing(installed)
    if issue.fixed_in is None:
        return f"{issue.reported} has it, and no release is known to fix it"
    if standing is Standing.AFFECTED:
        return f"The installed {installed} has it"
    fixed = f"It is fixed in {issue.fixed_in}{_refuses(issue)}"
    if standing is Standing.UNSURE:
        return f"{fixed}; whether the installed {installed} has the fix, its number does not tell"
    return f"{fixed}; which version is installed was not seen"


def _refuses(issue: Issue) -> str:
    """What the release with the fix makes of such a kernel, where that is not to run it."""
    then = {"rejected": ", which refuses such a kernel", "explained": ", which says what is wrong"}
    return then.get(issue.outcome, "")


def _ways(issue: Issue, standing: Standing) -> list[str]:
    ways = [f"set {name}={value!r}" for name, value in issue.switches]
    if issue.change:
        ways.append(issue.change)
    if standing is Standing.AFFECTED and issue.fixed_in:
        ways.insert(0, f"upgrade to {issue.fixed_in} or later{_refuses(issue)}")
    return ways


def _told(ways: list[str]) -> str:
    told = ", or ".join(ways)
    return f" {told[:1].upper()}{told[1:]}." if told else ""


def remedies(issue: Issue, installed: str | None, change: bool = True) -> list[str]:
    """What makes the fault go, each as an instruction of its own; nothing where it may be another one.

    `change` includes what to change in the kernel, which a rule about the same fault says better.
    """
    standing = issue.standing(installed)
    if issue.provided or standing is Standing.NOT_AFFECTED:
        return []
    ways = [way for way in _ways(issue, standing) if change or way != issue.change]
    return [f"{way[:1].upper()}{way[1:]} ({issue.id})" for way in ways]


def entry(issue: Issue, installed: str | None, also: Sequence[Issue] = ()) -> dict[str, Any]:
    """An issue as the report object has it: plain data, with the sentence that reports print.

    `also` are further triggers of the same root cause.
    """
    return {
        "id": issue.id,
        "url": issue.url,
        "also": [other.id for other in also],
        "title": issue.title,
        "cause": issue.cause,
        "standing": str(issue.standing(installed)),
        "affected": list(issue.affected),
        "fixed_in": issue.fixed_in,
        "provided": issue.provided,
        "switches": dict(issue.switches),
        "change": issue.change,
        "evidence": list(issue.evidence),
        "says": sentence(issue, installed, also),
    }
