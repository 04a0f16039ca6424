"""The simplest input of a mismatch, found with real runs of a kernel on the CPU."""

from __future__ import annotations

import pytest

from triage.experiment.minimal import OutOfBudget
from triage.experiment.minimize_input import Shows, SimplestInput, simple_values, small_shapes
from triage.experiment.oracle import Verdict
from triage.experiment.same_fault import outcome, start_of
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.knowledge.files import rules_root
from triage.knowledge.load import load_rules
from triage.knowledge.stages import Stages
from triage.model import Comparison, Mismatch

pytestmark = pytest.mark.tilelang

#: `{value}` is what the last 8 columns hold
SCRIPT = """import tilelang
import tilelang.language as T
import torch


def added(rows, columns):
    @T.prim_func
    def main(A: T.Tensor((rows, columns)), B: T.Tensor((rows, columns)), C: T.Tensor((rows, columns))):
        with T.Kernel(rows) as i:
            for j in T.serial(columns):
                C[i, j] = T.if_then_else(j < columns - 8, A[i, j] + B[i, j], {value})

    return main


a = torch.randn(2, 12)
b = torch.rand(2, 12)
c = tilelang.compile(added(2, 12), out_idx=[-1], target="c")(a, b)
torch.testing.assert_close(c, a + b)
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    pytest.importorskip("tilelang")
    folder = tmp_path_factory.mktemp("user")
    (folder / "kernel.py").write_text(SCRIPT)
    with ScriptRunner(tmp_path_factory.mktemp("runner"), folder / "kernel.py", cwd=folder) as running:
        yield running


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        ("A[i, j] + B[i, j] * 3.0", "ones", "all ones already show it: wrong by a factor of 2 in the last"),
        pytest.param(
            "A[i, j] * B[i, j] * 2.0",
            "ramp",
            "the numbers 0, 1, 2, … already show it: wrong in the last",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["ones", "ramp"],
)
def test_the_simplest_values_are_those_that_keep_the_pattern(value: str, kind: str, said: str, runner) -> None:
    rules, stages = load_rules(), Stages.load(rules_root() / "reference" / "stages.toml")
    source = SCRIPT.replace("{value}", value)

    def shows(text: str) -> Comparison | None:
        shown = runner.run(Candidate(text), 60.0)
        same = outcome(start, shown.status, shown.errors, rules, stages).verdict is Verdict.SAME
        return shown.errors[-1].comparison if same else None

    first = runner.run(Candidate(source), 60.0)
    start = start_of(first.errors, first.status, rules, stages)
    assert start is not None and start.comparison is not None
    found = minimize_input(source, start.comparison, shows)
    assert (found.values, found.finished) == (kind, True) and found.said.startswith(said)
    assert "rand" not in found.text and "manual_seed" not in found.text
    assert shows(found.text) == found.comparison
    assert found.comparison.pattern is not None and found.comparison.pattern.total < 2 * 12


def minimize_input(source: str, compared: Comparison, shows: Shows) -> SimplestInput:
    """Both steps, with nothing taken away between them."""
    values = simple_values(source, compared, shows)
    return small_shapes(values, values.text, values.comparison, shows)


def comparison(total: int = 4) -> Comparison:
    return Comparison("torch.equal", (total,), "float32", pattern=Mismatch((total,), "float32", 0, total))


TWO = "import torch\n\na = torch.randn(40)\nb = torch.randn(40)\n"


def test_where_not_all_tensors_may_be_plain_those_that_may_are() -> None:
    found = minimize_input(TWO, comparison(), lambda text: comparison() if "b = torch.randn" in text else None)
    assert (found.values, found.said) == (
        "mixed",
        "ones in 1 of 2 random tensors show it: nothing is wrong, at shape 4",
    )
    assert found.text == "import torch\ntorch.manual_seed(0)\n\na = torch.ones(1)\nb = torch.randn(1)\n"


def test_where_nothing_simpler_shows_it_that_is_said_and_the_text_stays() -> None:
    found = minimize_input(TWO, comparison(), lambda text: None)
    assert found.text == TWO and found.values == "random"
    assert found.said.startswith("no simpler values than random ones showed it")


def test_when_the_time_is_over_the_best_so_far_is_kept() -> None:
    tried = []

    def shows(text: str) -> Comparison | None:
        tried.append(text)
        if len(tried) > limit:
            raise OutOfBudget
        return comparison()

    limit = 2
    found = minimize_input(TWO, comparison(), shows)
    assert not found.finished and found.values == "ones" and found.text == tried[1]
    limit = 0
    found = minimize_input(TWO, comparison(), shows)
    assert not found.finished and found.text == TWO and found.said.startswith("random values: ")


def test_a_script_without_random_inputs_says_so() -> None:
    found = minimize_input("x = 1\n", comparison(), lambda text: None)
    assert (found.values, found.text) == ("given", "x = 1\n") and "its input is not random" in found.said
