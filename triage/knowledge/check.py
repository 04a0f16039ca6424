"""`triage rules check`: whether the rules are sound by themselves, beside each other, and against their fixtures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from triage import conditions
from triage.knowledge import pattern
from triage.knowledge.facts import FactName, load_fact_names
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
)
from triage.knowledge.load import read_all
from triage.knowledge.match import compiled, try_rule
from triage.knowledge.rule import Problem, Rule

#: Literal characters that every way to match must demand: less would match by chance.
SPECIFIC = 8
#: Share of the demanded words that at least one miss of a rule shows, or none of them is near.
NEAR = 0.5
#: Seconds that a search may take in a hostile text of `pattern.PROBE_LENGTH` characters; a linear one takes under 0.01.
SLOW = 1.0
#: Kinds of error that have no raising frame, so that a rule about them need not name one.
FRAMELESS = frozenset({"compiler", "signal", "timeout"})
#: Fields that hold whatever a lint measured.
OPEN_FIELDS = "hazard."


@dataclass
class Checked:
    """What was checked, and every problem found."""

    problems: list[Problem] = field(default_factory=list)
    rules: int = 0
    hits: int = 0
    misses: int = 0
    unmarked: int = 0


def check_rules(
    read: Read, root: Path | None = None, bless: bool = False, strategies: Collection[str] | None = None
) -> Checked:
    """Check all rules. `read` turns a log into records; `bless` writes the marks that hits lack or that are wrong.

    `strategies` are the repairs that a rule may name; None leaves that unchecked.
    """
    root = root or rules_root()
    rules, problems = read_all(root)
    done = Checked(problems, rules=len(rules))
    names = load_fact_names(root)
    for rule in rules:
        done.problems += [_problem(rule, text) for text in rule_problems(rule, names)]
        unknown = [name for name in rule.fix.strategies if strategies is not None and name not in strategies]
        done.problems += [_problem(rule, f"[fix] strategy: there is no strategy {name!r}") for name in unknown]
    fixtures = {rule.code: _read_fixtures(rule, read, done) for rule in rules}
    for rule in rules:
        _check_fixtures(rule, fixtures[rule.code], done, bless)
        done.problems += [_problem(rule, text) for text in _shadows(rule, rules, fixtures[rule.code])]
    done.problems += _orphans(root, rules)
    return done


def show_checked(done: Checked) -> str:
    lines = [str(problem) for problem in done.problems]
    lines.append(
        f"{done.rules} rules, {done.hits} hits ({done.unmarked} without a mark), {done.misses} near misses: "
        f"{len(done.problems) or 'no'} problem{'' if len(done.problems) == 1 else 's'}"
    )
    return "\n".join(lines) + "\n"


def rule_problems(rule: Rule, names: Mapping[str, FactName]) -> list[str]:
    """What is wrong with a rule by itself, fixtures aside."""
    text_problems = list(_pattern_problems(rule.match.text)) if rule.match.text else []
    if rule.match.line:
        text_problems += [problem.replace("text", "line", 1) for problem in _pattern_problems(rule.match.line, least=4)]
    if text_problems:
        return text_problems
    return [*_raiser_problems(rule), *_condition_problems(rule, names), *_claim_problems(rule, names)]


def _pattern_problems(text: str, least: int = SPECIFIC) -> Iterator[str]:
    expression, specific = compiled(text), pattern.specificity(text)
    if expression.search(""):
        yield "text matches the empty text"
    elif specific < least:
        yield f"text can match with {specific} literal characters; at least {least}, or it matches by chance"
    if pattern.nested_repeat(text):
        yield "text repeats a repeat without bound, which can take exponential time"
        return
    for probe in pattern.probes(text):
        try:
            expression.search(probe, timeout=SLOW)
        except TimeoutError:
            yield f"text is slow: over {SLOW:g} s in {len(probe)} characters that begin with {probe[:30]!r}"
            return


def _raiser_problems(rule: Rule) -> Iterator[str]:
    if rule.match.on != "error" or rule.match.raised_in:
        return
    if any(c.fact == "error.shadows" for c in rule.match.when):  # read from the frames, as the raising one is
        return
    kinds = [set(c.right) for c in rule.match.when if c.fact == "error.kind" and c.op in ("==", "in")]
    if not any(kind <= FRAMELESS for kind in kinds):
        yield (
            "any script can raise an error with this text: name raised_in, or ask for an error.kind that has no frame "
            f"({', '.join(sorted(FRAMELESS))})"
        )


def _condition_problems(rule: Rule, names: Mapping[str, FactName]) -> Iterator[str]:
    groups = _groups(rule)
    for condition in rule.match.when:
        yield from _known(condition, {*names, *groups}, names)
    for condition in rule.match.same_fault:
        yield from _known(condition, groups, {})


def _known(
    condition: conditions.Condition, known: set[str] | frozenset[str], names: Mapping[str, FactName]
) -> Iterator[str]:
    if condition.fact not in known and not condition.fact.startswith(OPEN_FIELDS):
        yield f"{condition.text}: {condition.fact} is neither a declared fact nor captured"
        return
    name = names.get(condition.fact)
    if name and name.values and condition.op in ("==", "!=", "in"):
        for word in condition.right:
            if word not in name.values and word not in known:
                yield f"{condition.text}: {condition.fact} is never {word}, only {', '.join(name.values)}"


def _claim_problems(rule: Rule, names: Mapping[str, FactName]) -> Iterator[str]:
    """A claim may say what was captured, what the record has, and what the match itself spells; nothing else."""
    fields = {name for name in names if name.startswith(f"{rule.match.on}.")}
    allowed = {*_groups(rule), *fields, *(c.fact for c in rule.match.when)}
    texts = {"says": rule.claim.says, "look_at": rule.claim.look_at, "argument": rule.claim.argument or ""}
    texts |= {f"fix step {number}": step for number, step in enumerate(rule.fix.steps, 1)}
    for where, text in texts.items():
        for name in PLACEHOLDER.findall(text):
            if name not in allowed and not (rule.match.on == "hazard" and name.startswith(OPEN_FIELDS)):
                yield f"{where}: {{{name}}} is neither captured nor a field of the record"
    shown = f"{rule.match.text or ''} {' '.join(c.text for c in rule.match.when)}"
    for number in re.findall(r"(?<![\w.])\d{2,}(?![\w.])", PLACEHOLDER.sub("", rule.claim.says)):
        if number not in shown:
            yield f"says: claims {number}, which the match does not show"


def _groups(rule: Rule) -> frozenset[str]:
    return pattern.group_names(rule.match.text) if rule.match.text else frozenset()


def _read_fixtures(rule: Rule, read: Read, done: Checked) -> list[Fixture]:
    found = []
    for path in fixture_paths(rule):
        try:
            found.append(read_fixture(path, read))
        except FixtureError as error:
            done.problems.append(Problem(f"{path.parent.name}/{path.name}", None, str(error)))
    return found


def _check_fixtures(rule: Rule, fixtures: list[Fixture], done: Checked, bless: bool) -> None:
    for kind, wanted in (("hit", True), ("miss", False)):
        if not any(fixture.hit is wanted for fixture in fixtures):
            done.problems.append(_problem(rule, f"no {kind}-* fixture beside it"))
    for fixture in fixtures:
        problems = _hit_problems(rule, fixture, done, bless) if fixture.hit else _miss_problems(rule, fixture, done)
        done.problems += [Problem(fixture.name, None, text) for text in problems]
    logs = [fixture.text for fixture in fixtures if not fixture.hit and fixture.text]
    if rule.match.text and logs and max(words_present(rule, text) for text in logs) < NEAR:
        done.problems.append(_problem(rule, "no miss is near: none has half of the words that the rule demands"))


def _hit_problems(rule: Rule, fixture: Fixture, done: Checked, bless: bool) -> list[str]:
    done.hits += 1
    trials = fixture.trials(rule)
    if not trials:
        return [f"{rule.code} does not match: {_closest(rule, fixture)}"]
    is_log = fixture.path.suffix == ".log"
    wrong = mark_problems(fixture, rule, trials)
    if bless and is_log and (wrong or not fixture.marks):
        fixture.path.write_text(blessed(fixture, rule, trials), "utf-8")
        return []
    done.unmarked += is_log and not fixture.marks
    needed = PLACEHOLDER.findall(rule.claim.says)
    values = [{**record.fields, **trial.captures} for record, trial in trials]
    unfilled = [name for name in needed if any(value.get(name) is None for value in values)]
    return wrong + [f"matches without {{{name}}}, which the claim needs" for name in unfilled]


def _miss_problems(rule: Rule, fixture: Fixture, done: Checked) -> list[str]:
    done.misses += 1
    return [f"{rule.code} matches a near miss: {trial.why}" for _, trial in fixture.trials(rule)]


def _closest(rule: Rule, fixture: Fixture) -> str:
    """Why the record that came closest was no match."""
    whys = [try_rule(rule, record, facts).why for record, facts in fixture.records if record.on == rule.match.on]
    telling = [why for why in whys if why not in ("the text differs", "no text")]
    return (telling or whys or [f"it holds no {rule.match.on} at all"])[0]


def _shadows(rule: Rule, rules: list[Rule], fixtures: list[Fixture]) -> Iterator[str]:
    """Rules that match the hits of this one too, without either saying that it explains the other."""
    mine = {f.path.name: [(r, f.facts_of(r)) for r, _ in f.trials(rule)] for f in fixtures if f.hit}
    for other in rules:
        related = other.code in rule.explains or rule.code in other.explains
        if other.code == rule.code or related or "advice" in (other.level, rule.level):
            continue
        for name, records in mine.items():
            if any(try_rule(other, record, facts).matched for record, facts in records):
                yield f"{other.code} matches the same record of {name}; let one of them explain the other"
                break


def _orphans(root: Path, rules: list[Rule]) -> Iterator[Problem]:
    """Folders without a rule file, and files in the folders that nobody reads."""
    for category in CATEGORY_LETTERS:
        for folder in sorted(path for path in (root / category).glob("*") if path.is_dir()):
            shown = f"{category}/{folder.name}"
            if not folder.with_name(folder.name + ".toml").is_file():
                yield Problem(shown, None, "a folder of fixtures without a rule file beside it")
            for path in sorted(folder.iterdir()):
                if not re.fullmatch(r"(hit|miss)-[\w.-]+\.(log|json)|[a-z]{2}\.toml", path.name):
                    yield Problem(f"{shown}/{path.name}", None, "neither a hit-* nor a miss-* fixture (.log, .json)")


def _problem(rule: Rule, text: str) -> Problem:
    return Problem(f"{rule.category}/{rule.code}-{rule.name}.toml", None, text)
