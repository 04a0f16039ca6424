"""`triage rules check`: whether the rules are sound by themselves, beside each other, and against their fixtures."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from triage.knowledge.facts import FactName, read_fact_names
from triage.knowledge.files import CATEGORY_LETTERS, PLACEHOLDER, FileError, require, rules_root
from triage.knowledge.fits import words_present
from triage.knowledge.fixtures import (
    Fixture,
    FixtureError,
    Read,
    blessed,
    fixture_paths,
    fixture_text,
    lines_of,
    mark_problems,
    name_of,
    read_fixture,
    said_elsewhere,
)
from triage.knowledge.load import RuleFile, problems_across, read_files
from triage.knowledge.match import try_rule
from triage.knowledge.rule import Problem, Rule, RuleSet
from triage.knowledge.sites import Sites
from triage.knowledge.sound import Complaint, complaints, reads_frames
from triage.knowledge.stages import Stages
from triage.knowledge.symptoms import FILE as SYMPTOMS
from triage.knowledge.symptoms import Symptoms
from triage.knowledge.upstream import table_problems

#: Share of the demanded words that at least one miss of a rule shows, or none of them is near.
NEAR = 0.5
#: Keys of [match] of which a complaint makes trials tell nothing: the rule matches never, or what it never meant to.
TRIED = frozenset({"text", "line", "when", "unless"})


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
    #: rules that were not tried against fixtures, because something is wrong with what they match
    untried: int = 0
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

    `strategies` are the repairs that a rule may name; None leaves that unchecked. What only follows from another problem is
    not told: a rule of which something is lost is not tried, and without the names of facts no condition is looked at.

    Raises `KeyError` for a code without a rule, `NoRulesError` without a rules folder, `OSError` where a fixture cannot be
    blessed.
    """
    root = root or rules_root()
    files = read_files(root)
    if unknown := sorted(set(codes) - {code for file in files for code in file.codes}):
        raise KeyError(unknown[0])
    asked = [file for file in files if not codes or file.codes & set(codes)]
    done = Checked(rules=len(asked))
    shown = {file.shown for file in asked}
    names, wrong_names = read_fact_names(root)
    done.problems += wrong_names
    done.problems += [problem for file in asked for problem in file.problems]
    done.problems += [problem for problem in problems_across(files) if problem.file in shown]
    told = {file.shown: _told(file, names, strategies) for file in asked}
    done.problems += [file.problem(*one) for file in asked for one in told[file.shown]]
    done.untried = sum(not _can_be_tried(file, told[file.shown]) for file in asked)
    sound = [file for file in files if _can_be_tried(file, told.get(file.shown, ()))]
    run = _Check(read, RuleSet(tuple(file.rule for file in sound if file.rule), root), bless, done)
    for file in sound:
        if file.rule is None or file.shown not in shown:
            continue
        run.fixtures(file, file.rule, told[file.shown])
        if codes:
            run.hits_of_others(file, file.rule, codes)
    if not codes:
        symptoms = _broken(root / SYMPTOMS, lambda: Symptoms.load(root))
        done.problems += [*_orphans(root), *table_problems(root), *symptoms]
    return done


def unreadable(root: Path) -> list[Problem]:
    """What is wrong with the tables without which nothing can be read out of a log. Raises `NoRulesError`."""
    require(root)
    reference = root / "reference"
    stages, sites = reference / "stages.toml", reference / "sites.jsonl"
    return [*_broken(stages, lambda: Stages.load(stages)), *_broken(sites, lambda: Sites.load(sites))]


def _broken(path: Path, load: Callable[[], object]) -> Iterator[Problem]:
    try:
        load()
    except FileError as error:
        yield Problem(name_of(path), error.line, error.why)


def _told(file: RuleFile, names: Mapping[str, FactName], strategies: Collection[str] | None) -> tuple[Complaint, ...]:
    """What is wrong with a rule by itself, if enough of it and of the facts is there to tell."""
    return tuple(complaints(file.rule, names, strategies)) if file.rule and file.whole and names else ()


def _can_be_tried(file: RuleFile, told: Iterable[Complaint]) -> bool:
    return file.whole and not any(one.section == "match" and one.key in TRIED for one in told)


def show_checked(done: Checked, blessed: bool = False) -> str:
    """The problems, what blessing changes as a diff, and the counts; real runs and hits from source are counted apart."""
    parts = [f"{problem}\n" for problem in done.problems]
    if done.blessings:
        parts.append("changed:\n" if blessed else "`triage rules check --bless` would change:\n")
        parts += [show_blessing(blessing) for blessing in done.blessings]
    source = f"{done.from_source} of them from source, " if done.from_source else ""
    count = len(done.problems)
    untried = f"; {done.untried} not tried against fixtures for what is wrong with them" if done.untried else ""
    parts.append(
        f"{done.rules} rules, {done.hits} hits ({source}{done.unmarked} without a mark), {done.misses} near misses: "
        f"{count or 'no'} problem{'' if count == 1 else 's'}{untried}\n"
    )
    return "".join(parts)


def show_blessing(blessing: Blessing) -> str:
    """What blessing changes in a fixture, as a unified diff."""
    name = name_of(blessing.path)
    before, after = map(lines_of, (blessing.before, blessing.after))
    return "\n".join(line.rstrip("\n") for line in difflib.unified_diff(before, after, name, name, n=1)) + "\n"


@dataclass
class _Check:
    """One run over the asked rules."""

    read: Read
    rules: RuleSet
    bless: bool
    done: Checked

    def fixtures(self, file: RuleFile, rule: Rule, told: Collection[Complaint] = ()) -> None:
        """The fixtures beside a rule: that they are there, that hits match and misses do not, and that nobody else matches.

        What follows from what was `told` of the rule itself is not told again of each hit.
        """
        found = self._read(rule)
        for kind, wanted in (("hit", True), ("miss", False)):
            if not any(fixture.hit is wanted for fixture in found):
                self._tell(file, f"no {kind}-* fixture beside it")
        for fixture in found:
            self.done.problems += self._hit(rule, fixture, told) if fixture.hit else self._miss(rule, fixture)
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
                try:
                    if path.suffix == ".log" and not glance.possible(rule.match.on, fixture_text(path)):
                        continue
                    fixture = read_fixture(path, self.read)
                except FixtureError as error:
                    self.done.problems.append(error.problem)
                    continue
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
                self.done.problems.append(error.problem)
        return found

    def _hit(self, rule: Rule, fixture: Fixture, told: Collection[Complaint]) -> list[Problem]:
        self.done.hits += 1
        self.done.from_source += fixture.from_source
        trials = fixture.trials(rule)
        if not trials:
            return [Problem(fixture.name, None, f"{rule.code} does not match: {_closest(rule, fixture)}")]
        problems = [Problem(fixture.name, line, text) for line, text in mark_problems(fixture, rule, trials)]
        if fixture.path.suffix == ".log" and (problems or not fixture.marks):
            before, after = fixture_text(fixture.path), blessed(fixture, rule, trials)
            if before != after:
                self.done.blessings.append(Blessing(fixture.path, before, after))
            if self.bless:
                fixture.path.write_bytes(after.encode())
                return []
            self.done.unmarked += not fixture.marks
        forged = [said_elsewhere(record) for record, _ in trials]
        frameless = reads_frames(rule) or any(one.key == "raised_in" for one in told)
        if not frameless and any(record and try_rule(rule, record, {}).matched for record in forged):
            problems.append(
                Problem(fixture.name, None, f"{rule.code} matches when another library says the same words")
            )
        needed = set(PLACEHOLDER.findall(rule.claim.says)) - {one.shows for one in told if one.key == "says"}
        values = [{**record.fields, **trial.captures} for record, trial in trials]
        unfilled = [name for name in sorted(needed) if any(value.get(name) is None for value in values)]
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
