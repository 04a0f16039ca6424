"""The rules with their fixtures, read as `triage postmortem` reads a log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from triage.findings import records_of_text
from triage.knowledge.fixtures import Fixture, fixture_paths, read_fixture
from triage.knowledge.load import load_rules
from triage.knowledge.match import Record, try_rule
from triage.knowledge.rule import Rule, RuleSet
from triage.knowledge.stages import Stages

ROOT = Path(__file__).resolve().parents[2] / "rules"


@cache
def rules() -> RuleSet:
    return load_rules(ROOT)


@cache
def stages() -> Stages:
    return Stages.load(ROOT / "reference" / "stages.toml")


def read(text: str, name: str = "log") -> list[Record]:
    return records_of_text(text, name, stages())


def fixtures(rule: Rule, kind: str, suffix: str = ".log") -> list[Fixture]:
    """The fixtures of one kind, `hit` or `miss`, in one format."""
    paths = [p for p in fixture_paths(rule) if p.name.startswith(f"{kind}-") and p.suffix == suffix]
    return [read_fixture(path, read) for path in paths]


def matching(records: Sequence[Record]) -> set[str]:
    """Codes of all rules that match any of the records."""
    return {rule.code for record in records for rule in matching_rules(record)}


def matching_rules(record: Record) -> list[Rule]:
    tried = rules().possible(record.on, record.text)
    return [rule for rule in tried if try_rule(rule, record, {}).matched]


def hits() -> list[tuple[Rule, Path]]:
    """Every hit that is a log, with its rule; read by the test that wants it, because there are more than a thousand."""
    paths = [(rule, path) for rule in rules() for path in fixture_paths(rule)]
    return [(rule, path) for rule, path in paths if path.name.startswith("hit-") and path.suffix == ".log"]


@cache
def fixture_at(path: Path) -> Fixture:
    return read_fixture(path, read)
