"""Traps for the oracle of script experiments: each family has a `start.py`, and candidates named by what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triage.experiment.oracle import Verdict
from triage.experiment.process import Run, Subject, run_subject
from triage.experiment.same_fault import Start, outcome, start_of, steady
from triage.knowledge.load import load_rules
from triage.knowledge.stages import Stages
from triage.model import ErrorRecord
from triage.readers import from_event

TRAPS = Path(__file__).resolve().parent / "traps"
RULES = Path(__file__).resolve().parents[2] / "rules"
EXPECTED = {
    "same": {Verdict.SAME},
    "other": {Verdict.OTHER},
    "none": {Verdict.NONE},
    "unknown": {Verdict.UNKNOWN},
    "not-same": {Verdict.OTHER, Verdict.NONE, Verdict.UNKNOWN},
}
CANDIDATES = sorted(path for path in TRAPS.glob("*/*-*.py"))
#: enough for a script that imports tilelang and builds one kernel
TIMEOUT = 120


@pytest.fixture(scope="session")
def rules():
    return load_rules(RULES)


@pytest.fixture(scope="session")
def stages():
    return Stages.load(RULES / "reference" / "stages.toml")


@pytest.fixture(scope="session")
def shown(tmp_path_factory):
    """`shown(script)`: status and errors of an observed run, each script once a session, all with one kernel cache."""
    pytest.importorskip("tilelang")
    cache = tmp_path_factory.mktemp("cache")
    known: dict[Path, tuple[str, list[ErrorRecord]]] = {}

    def run(script: Path, again: bool = False) -> tuple[str, list[ErrorRecord]]:
        if script not in known or again:
            known[script] = observe(script, tmp_path_factory.mktemp(script.stem), cache)
        return known[script]

    return run


def observe(script: Path, directory: Path, cache: Path) -> tuple[str, list[ErrorRecord]]:
    subject = Subject(script=script, cwd=script.parent)
    done = run_subject(
        subject,
        directory / "step",
        directory / "blobs",
        timeout=3 if "too-slow" in script.stem else TIMEOUT,
        env={"TILELANG_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return done.exit.status, list(errors_of(done, directory / "blobs"))


def errors_of(run: Run, blobs: Path):
    for event in run.events:
        if event["type"] == "error":
            yield from_event({**event, "error": whole(event["error"], blobs)})


def whole(value: Any, blobs: Path) -> Any:
    if isinstance(value, dict) and set(value) == {"blob"}:
        return json.loads((blobs / value["blob"]).read_text())
    return value


def start_in(family: Path, shown, rules, stages) -> Start:
    status, errors = shown(family / "start.py")
    start = start_of(errors, status, rules, stages)
    assert start is not None
    return start


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_oracle_does_not_slip(candidate: Path, shown, rules, stages) -> None:
    start = start_in(candidate.parent, shown, rules, stages)
    found = outcome(start, *shown(candidate), rules, stages)
    wanted = next(verdicts for word, verdicts in EXPECTED.items() if candidate.stem.startswith(word + "-"))
    assert found.verdict in wanted, (found, start)


@pytest.mark.parametrize(
    ("family", "rule", "callee"),
    [
        ("gemm", "TLG014", "T.gemm"),
        ("lowering", "TLG032", "tilelang.compile"),
        ("call", "TLG057", "adder"),
        ("own", "", "ValueError"),
        ("compare", "TLC020", "torch.testing.assert_close"),
    ],
)
def test_a_start_is_known_by_its_rule_and_callee(family: str, rule: str, callee: str, shown, rules, stages) -> None:
    start = start_in(TRAPS / family, shown, rules, stages)
    assert (start.key.rule, start.key.callee) == (rule, callee), start


def test_a_start_is_steady_and_is_not_answered_by_a_kernel_that_was_cached(shown, rules, stages) -> None:
    start = start_in(TRAPS / "lowering", shown, rules, stages)
    assert shown(TRAPS / "lowering" / "none-fixed.py")[0] == "succeeded"
    status, errors = shown(TRAPS / "lowering" / "start.py", again=True)
    assert steady(start, [start_of(errors, status, rules, stages)]) is None
