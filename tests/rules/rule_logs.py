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
    return {rule.code for rule in rules() for record in records if try_rule(rule, record, {}).matched}


def hits() -> list[tuple[Rule, Fixture]]:
    """Every hit that is a log, with its rule."""
    return [(rule, fixture) for rule in rules() for fixture in fixtures(rule, "hit")]
