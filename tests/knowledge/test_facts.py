from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from rule_samples import ROOT

from triage import model
from triage.conditions import parse
from triage.knowledge.facts import fact_types, load_fact_names
from triage.knowledge.rule import RuleErrors


def test_every_name_says_what_it_is() -> None:
    names = load_fact_names()
    assert len(names) > 50
    assert all(re.fullmatch(r"[a-z]+\.[a-z_-]+", name) and fact.what for name, fact in names.items())
    assert fact_types()["kernel.shared_bytes"] == "int" and names["kernel.shared_bytes"].unit == "byte"


def test_the_values_are_those_of_the_model() -> None:
    names = load_fact_names()
    for name, enum in {
        "finding.state": model.State,
        "finding.category": model.Category,
        "finding.owner": model.Owner,
        "finding.confidence": model.Confidence,
        "step.status": model.StepStatus,
        "step.outcome": model.StepOutcome,
    }.items():
        assert set(names[name].values) == set(enum), name


def test_the_graph_reads_declared_facts_only() -> None:
    graph = tomllib.loads((ROOT / "graph.toml").read_text("utf-8"))
    names = load_fact_names()
    texts = [text for branches in graph["branches"].values() for _, *conditions in branches for text in conditions]
    assert texts and {parse(text).fact for text in texts} <= set(names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run\n", "facts.toml:1: not TOML"),
        ("run = 3\n", "facts.toml:1: run must be a table"),
        ("[run]\nstatus = 3\n", "facts.toml:2: run.status: must be a table"),
        ('[run]\nstatus = {type = "str"}\n', "run.status: what is missing"),
        ('[run]\nstatus = {type = "text", what = "x"}\n', "run.status: type must be one of"),
        ('[run]\nstatus = {type = "str", what = "x", units = "s"}\n', "run.status: unknown key 'units'"),
        ('[run]\nstatus = {type = "str", what = "x", of = "y"}\n', "run.status: of must be"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "facts.toml").write_text(text)
    with pytest.raises(RuleErrors, match=re.escape(words)):
        load_fact_names(tmp_path)
