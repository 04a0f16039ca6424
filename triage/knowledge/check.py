"""`triage rules check`: whether the rules are sound by themselves, beside each other, and against their fixtures."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from triage.knowledge.facts import read_fact_names
from triage.knowledge.files import CATEGORY_LETTERS, PLACEHOLDER, rules_root
from triage.knowledge.fits import words_present
from triage.knowledge.fixtures import (
    Fixture,
    FixtureError,
    Read,
    blessed,
    fixture_paths,
    mark_problems,
    read_fixture,
    said_elsewhere,
)
from triage.knowledge.load import RuleFile, problems_across, read_files
from triage.knowledge.match import try_rule
from triage.knowledge.rule import Problem, Rule, RuleSet
from triage.knowledge.sound import complaints, reads_frames
from triage.knowledge.upstream import table_problems

#: Share of the demanded words that at least one miss of a rule shows, or none of them is near.
NEAR = 0.5
GREEN, RED, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"


class Blessing(NamedTuple):
    """The text of a fixture as it is and with the marks that the match gives."""

    path: Path
    before: str
    after: str


@dataclass
class Checked:
    """What was checked, every problem found, and what blessing changes, or changed if it was asked for."""

    problems: list[Problem] = field(default_factory=list)
    rules: int = 0
    hits: int = 0
    #: hits that are written from a check in upstream's source, for want of a machine that reaches it
    from_source: int = 0
    misses: int = 0
    unmarked: int = 0
    blessings: list[Blessing] = field(default_factory=list)


def check_rules(
    read: Read,
    root: Path | None = None,
    bless: bool = False,
    strategies: Collection[str] | None = None,
    codes: Collection[str] = (),
) -> Checked:
    """Check all rules, or those of `codes`. `read` turns a log into records; `bless` writes the marks that hits lack or that
    are wrong.

    `strategies` are the repairs that a rule may name; None leaves that unchecked. Raises `KeyError` for a code without a rule.
    """
    root = root or rules_root()
    files = read_files(root)
    every = [file.rule for file in files if file.rule]
    if unknown := sorted(set(codes) - {rule.code for rule in every}):
        raise KeyError(unknown[0])
    asked = [file for file in files if not codes or (file.rule and file.rule.code in codes)]
    done = Checked(rules=len(asked))
    shown = {file.shown for file in asked}
    names, wrong_names = read_fact_names(root)
    done.problems += wrong_names
    done.problems += [problem for file in asked for problem in file.problems]
    done.problems += [problem for problem in problems_across(files) if problem.file in shown]
    run = _Check(read, RuleSet(tuple(every), root), bless, done)
    for file in asked:
        if file.rule is None:
            continue
        found = complaints(file.rule, names, strategies)
        done.problems += [file.problem(one.section, one.key, one.text, one.shows) for one in found]
        run.fixtures(file, file.rule)
        if codes:
            run.hits_of_others(file, file.rule, codes)
    done.problems += [] if codes else [*_orphans(root), *table_problems(root)]
    return done


def show_checked(done: Checked, blessed: bool = False, color: bool = False) -> str:
    """The problems, what blessing changes as a diff, and the counts; real runs and hits from source are counted apart."""
    parts = [f"{problem}\n" for problem in done.problems]
    if done.blessings:
        parts.append("changed:\n" if blessed else "`triage rules check --bless` would change:\n")
        parts += [show_blessing(blessing, color) for blessing in done.blessings]
    source = f"{done.from_source} of them from source, " if done.from_source else ""
    count = len(done.problems)
    parts.append(
        f"{done.rules} rules, {done.hits} hits ({source}{done.unmarked} without a mark), {done.misses} near misses: "
        f"{count or 'no'} problem{'' if count == 1 else 's'}\n"
    )
    return "".join(parts)


def show_blessing(blessing: Blessing, color: bool = False) -> str:
    """What blessing changes in a fixture, as a unified diff."""
    name = f"{blessing.path.parent.name}/{blessing.path.name}"
    before, after = (text.splitlines(keepends=True) for text in (blessing.before, blessing.after))
    lines = [line.rstrip("\n") for line in difflib.unified_diff(before, after, name, name, n=1)]
    if color:
        paint = {"+": GREEN, "-": RED}
        lines = [f"{paint[line[0]]}{line}{PLAIN}" if line[0] in paint else line for line in lines]
    return "\n".join(lines) + "\n"


@dataclass
class _Check:
    """One run over the asked rules."""

    read: Read
    rules: RuleSet
    bless: bool
    done: Checked

    def fixtures(self, file: RuleFile, rule: Rule) -> None:
        """The fixtures beside a rule: that they are there, that hits match and misses do not, and that nobody else matches."""
        found = self._read(rule)
        for kind, wanted in (("hit", True), ("miss", False)):
            if not any(fixture.hit is wanted for fixture in found):
                self._tell(file, f"no {kind}-* fixture beside it")
        for fixture in found:
            self.done.problems += self._hit(rule, fixture) if fixture.hit else self._miss(rule, fixture)
        logs = [fixture.text for fixture in found if not fixture.hit and fixture.text]
        if rule.match.text and logs and max(words_present(rule, text) for text in logs) < NEAR:
            self._tell(file, "no miss is near: none has half of the words that the rule demands")
        for other, name in self._others_on(rule, found):
            self._tell(file, f"{other.code} matches the same record of {name}; let one of them explain the other")

    def hits_of_others(self, file: RuleFile, rule: Rule, checked: Collection[str]) -> None:
        """Whether the rule takes hits of rules that are not checked themselves."""
        glance = RuleSet((rule,))
        for other in self.rules:
            if other.code in checked or not rivals(rule, other):
                continue
            for path in fixture_paths(other):
                if not path.name.startswith("hit-"):
                    continue
                if path.suffix == ".log" and not glance.possible(rule.match.on, path.read_text("utf-8")):
                    continue
                fixture = read_fixture(path, self.read)
                records = [(record, fixture.facts_of(record)) for record, _ in fixture.trials(other)]
                if any(try_rule(rule, record, facts).matched for record, facts in records):
                    self._tell(file, f"matches the record of {fixture.name}; let one of them explain the other")
                    break

    def _read(self, rule: Rule) -> list[Fixture]:
        found = []
        for path in fixture_paths(rule):
            try:
                found.append(read_fixture(path, self.read))
            except FixtureError as error:
                self.done.problems.append(Problem(f"{path.parent.name}/{path.name}", error.line, str(error)))
        return found

    def _hit(self, rule: Rule, fixture: Fixture) -> list[Problem]:
        self.done.hits += 1
        self.done.from_source += fixture.from_source
        trials = fixture.trials(rule)
        if not trials:
            return [Problem(fixture.name, None, f"{rule.code} does not match: {_closest(rule, fixture)}")]
        problems = [Problem(fixture.name, line, text) for line, text in mark_problems(fixture, rule, trials)]
        if fixture.path.suffix == ".log" and (problems or not fixture.marks):
            before, after = fixture.path.read_text("utf-8"), blessed(fixture, rule, trials)
            if before != after:
                self.done.blessings.append(Blessing(fixture.path, before, after))
            if self.bless:
                fixture.path.write_text(after, "utf-8")
                return []
            self.done.unmarked += not fixture.marks
        forged = [said_elsewhere(record) for record, _ in trials]
        if not reads_frames(rule) and any(record and try_rule(rule, record, {}).matched for record in forged):
            problems.append(
                Problem(fixture.name, None, f"{rule.code} matches when another library says the same words")
            )
        needed = PLACEHOLDER.findall(rule.claim.says)
        values = [{**record.fields, **trial.captures} for record, trial in trials]
        unfilled = [name for name in needed if any(value.get(name) is None for value in values)]
        return problems + [
            Problem(fixture.name, None, f"matches without {{{name}}}, which the claim needs") for name in unfilled
        ]

    def _miss(self, rule: Rule, fixture: Fixture) -> list[Problem]:
        self.done.misses += 1
        whys = [trial.why for _, trial in fixture.trials(rule)]
        return [Problem(fixture.name, None, f"{rule.code} matches a near miss: {why}") for why in whys]

    def _others_on(self, rule: Rule, fixtures: Sequence[Fixture]) -> Iterator[tuple[Rule, str]]:
        """The rules that match a record which this one matches, with the hit that shows it, and none explains the other."""
        told = set()
        for fixture in fixtures:
            for record, _ in fixture.trials(rule) if fixture.hit else ():
                facts = fixture.facts_of(record)
                for other in self.rules.possible(record.on, record.text):
                    if other.code in told or not rivals(rule, other):
                        continue
                    if try_rule(other, record, facts).matched:
                        told.add(other.code)
                        yield other, fixture.path.name

    def _tell(self, file: RuleFile, message: str) -> None:
        self.done.problems.append(file.problem("match", "text", message))


def rivals(rule: Rule, other: Rule) -> bool:
    """Whether the two must not match the same record."""
    related = other.code in rule.explains or rule.code in other.explains
    return other.code != rule.code and not related and "advice" not in (other.level, rule.level)


def _closest(rule: Rule, fixture: Fixture) -> str:
    """Why the record that came closest was no match."""
    whys = [try_rule(rule, record, facts).why for record, facts in fixture.records if record.on == rule.match.on]
    telling = [why for why in whys if why not in ("the text differs", "no text")]
    return (telling or whys or [f"it holds no {rule.match.on} at all"])[0]


def _orphans(root: Path) -> Iterator[Problem]:
    """Folders without a rule file, and files in the folders that nobody reads."""
    for category in CATEGORY_LETTERS:
        for folder in sorted(path for path in (root / category).glob("*") if path.is_dir()):
            shown = f"{category}/{folder.name}"
            if not folder.with_name(folder.name + ".toml").is_file():
                yield Problem(shown, None, "a folder of fixtures without a rule file beside it")
            for path in sorted(folder.iterdir()):
                if not re.fullmatch(r"(hit|miss)-[\w.-]+\.(log|json)|[a-z]{2}\.toml", path.name):
                    yield Problem(f"{shown}/{path.name}", None, "neither a hit-* nor a miss-* fixture (.log, .json)")
