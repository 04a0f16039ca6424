"""Traps for the oracle of script experiments: each family has a `start.py`, and candidates named by what they are."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from sampling import one_in

from triage.experiment.oracle import Verdict
from triage.experiment.same_fault import Start, outcome, start_of, steady
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.knowledge.load import load_rules
from triage.knowledge.stages import Stages

TRAPS = Path(__file__).resolve().parent / "traps"
RULES = Path(__file__).resolve().parents[2] / "rules"
#: the first word of a candidate's name
EXPECTED = {
    "same": Verdict.SAME,
    "renamed": Verdict.SAME,
    "other": Verdict.OTHER,
    "none": Verdict.NONE,
    "unknown": Verdict.UNKNOWN,
}
CANDIDATES = sorted(TRAPS.glob("*/*-*.py"))


class Family:
    """The scripts of one folder, each run once as a changed copy of its `start.py`."""

    def __init__(self, folder: Path, runner: ScriptRunner) -> None:
        self.folder, self.runner = folder, runner
        self.rules, self.stages = load_rules(RULES), Stages.load(RULES / "reference" / "stages.toml")

    def shown(self, name: str) -> Shown:
        return self.runner.run(self.candidate(name), 3.0 if "too-slow" in name else 120.0)

    def candidate(self, name: str) -> Candidate:
        return Candidate((self.folder / f"{name}.py").read_text())

    def start(self) -> Start:
        start = self.fault(self.shown("start"))
        assert start is not None
        return start

    def fault(self, shown: Shown) -> Start | None:
        return start_of(shown.errors, shown.status, self.rules, self.stages)


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """`family(name)`: one of the folders, with a runner of its own."""
    pytest.importorskip("tilelang")
    known: dict[str, Family] = {}
    with ExitStack() as running:

        def get(name: str) -> Family:
            if name == "compiler" and shutil.which("nvcc") is None:
                pytest.skip("no nvcc")
            if name not in known:
                script = TRAPS / name / "start.py"
                runner = ScriptRunner(tmp_path_factory.mktemp(name), script, cwd=tmp_path_factory.mktemp("cwd"))
                known[name] = Family(script.parent, running.enter_context(runner))
            return known[name]

        yield get


@pytest.mark.parametrize("path", one_in(3, CANDIDATES), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_oracle_does_not_slip(path: Path, family) -> None:
    one = family(path.parent.name)
    shown, word = one.shown(path.stem), path.stem.partition("-")[0]
    found = outcome(one.start(), shown.status, shown.errors, one.rules, one.stages, renamed=word == "renamed")
    assert found.verdict is EXPECTED[word], (found, shown.errors[-1:])


@pytest.mark.parametrize(
    ("name", "rule", "callee"),
    [
        ("gemm", "TLG014", "T.gemm"),
        ("twice", "TLG014", "T.gemm"),
        ("lowering", "TLG032", "tilelang.compile"),
        ("call", "TLG057", "adder"),
        ("own", "", "ValueError"),
        ("compiler", "TLG051", "tilelang.compile"),
        ("compare", "TLC020", "torch.testing.assert_close"),
        ("mismatch", "TLC020", "torch.testing.assert_close"),
        ("reduction", "", "ValueError"),
        ("moving", "", "torch.allclose"),
    ],
)
def test_a_start_is_known_by_its_rule_and_callee(name: str, rule: str, callee: str, family) -> None:
    start = family(name).start()
    assert (start.key.rule, start.key.callee) == (rule, callee), start


def test_a_start_is_steady_and_not_answered_by_a_kernel_that_was_built_before(family) -> None:
    one = family("lowering")
    start = one.start()
    assert one.shown("none-fixed").status == "succeeded"
    again = [one.fault(one.runner.again(one.candidate("start"), 120.0)) for _ in range(2)]
    assert steady(start, again) is None


@pytest.mark.parametrize("name", ["gemm", "lowering", "call"])
def test_a_fixed_script_shows_no_fault_after_the_start_was_run(name: str, family) -> None:
    one = family(name)
    start = one.start()
    shown = one.runner.again(one.candidate("none-fixed"), 120.0)
    assert outcome(start, shown.status, shown.errors, one.rules, one.stages).verdict is Verdict.NONE


def test_every_trap_says_what_it_is() -> None:
    assert {path.stem.partition("-")[0] for path in CANDIDATES} == set(EXPECTED)
