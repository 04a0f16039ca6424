"""Faults are put into healthy scripts; the fixes that triage calls verified must restore what those scripts meant.

`python benchmarks/fixes.py` shows each case in a row.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest
from corpus import Case, ask
from fixed import Fixed, try_one
from inject import healthy_scripts, injections
from judge import Judge

pytestmark = [
    pytest.mark.tilelang,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="the kernels need tilelang"),
]

HEALTHY = healthy_scripts()
#: the faults of the default run
SAMPLE = slice(30, 150, 50)
#: where the faults are made; another seed makes them in other places
SEED = 1


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("judged"))


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_script_is_healthy_and_computes_something(
    name: str, judge: Judge, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A fault in it is one only if there was none, and a judge that compares zeros acquits anything."""
    import torch

    assert ask(Case(name, HEALTHY[name], None), tmp_path_factory.mktemp(name)).state == "healthy"
    told = judge.told(HEALTHY[name])
    assert told["end"] == "returned" and told["compares"] and all(c["passed"] for c in told["compares"])
    for launch in told["launches"]:
        written = launch["result"] if launch["result"] is not None else launch["args"][-1]
        for kept in written if isinstance(written, list) else [written]:
            values = torch.load(told["folder"] / kept["tensor"]).double()
            assert torch.isfinite(values).all() and values.std() > 0


@pytest.fixture(scope="module", params=["sample", pytest.param("all", marks=pytest.mark.slow)])
def faults(request: pytest.FixtureRequest, judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> list[Fixed]:
    """The answers to faults that show without a GPU."""
    folder = tmp_path_factory.mktemp("fixes")
    chosen = injections(SEED) if request.param == "all" else injections(SEED)[SAMPLE]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda case: try_one(case, folder / case.id, judge), chosen))
    return [answer for answer in answers if answer.is_fault]


def test_three_of_five_faults_get_a_verified_fix(faults: list[Fixed]) -> None:
    fixed = [a for a in faults if a.patches]
    assert len(fixed) >= 0.6 * len(faults), report([a for a in faults if a not in fixed])


def test_a_verified_fix_restores_the_meaning(faults: list[Fixed]) -> None:
    patches = sum(len(a.patches) for a in faults)
    wrong = [a for a in faults if a.wrong]
    assert sum(len(a.wrong) for a in wrong) <= 0.05 * patches, report(wrong)


def report(answers: list[Fixed]) -> str:
    shown = [f"{j.why}\n{patch}" for a in answers for patch, j in a.wrong]
    return "\n" + "\n".join([a.row() for a in answers] + shown)
