"""Candidates in fresh processes of mode real; what needs no GPU of it is tested here, the rest in `test_minimize_on_gpu.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.experiment.gpu_scripts import GpuRunner, virtual_is_enough
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.knowledge.load import load_rules
from triage.knowledge.stages import Stages

TRAPS = Path(__file__).resolve().parent / "traps"
RULES = Path(__file__).resolve().parents[2] / "rules"
TARGET = {"TILELANG_DEFAULT_TARGET": '{"kind": "cuda", "arch": "sm_90a"}'}
pytestmark = pytest.mark.tilelang


@pytest.fixture(scope="module")
def runners(tmp_path_factory):
    pytest.importorskip("tilelang")
    where, cwd = tmp_path_factory.mktemp("runners"), tmp_path_factory.mktemp("cwd")
    script = TRAPS / "mismatch" / "start.py"
    with (
        GpuRunner(where, script, cwd=cwd, env=TARGET) as real,
        ScriptRunner(where, script, cwd=cwd, env=TARGET) as virtual,
    ):
        yield real, virtual


def test_a_candidate_really_computes_and_is_not_run_twice(runners) -> None:
    real, _ = runners
    candidate = Candidate((TRAPS / "mismatch" / "same-one-program.py").read_text())
    found = real.first([Candidate("pass\n"), candidate], lambda shown: shown.status == "failed", 200.0)
    assert found is not None and found[0] == candidate
    compared = found[1].errors[-1].comparison
    assert compared is not None and compared.pattern is not None and compared.pattern.wrong == 64 * 16
    count = real.count
    assert real.run(candidate, 200.0).errors == found[1].errors and real.count == count


def test_the_virtual_device_is_enough_for_a_fault_before_any_value(runners) -> None:
    real, virtual = runners
    rules, stages = load_rules(RULES), Stages.load(RULES / "reference" / "stages.toml")
    build = Candidate((TRAPS / "gemm" / "start.py").read_text())
    values = Candidate((TRAPS / "mismatch" / "same-one-program.py").read_text())
    healthy = Candidate("pass\n")
    assert virtual_is_enough(real, virtual, build, rules, stages)
    assert not virtual_is_enough(real, virtual, values, rules, stages)
    assert not virtual_is_enough(real, virtual, healthy, rules, stages)


def test_an_interpreter_that_does_not_run_is_said(tmp_path: Path) -> None:
    from triage.experiment.client import TemplateError

    with (
        pytest.raises(TemplateError, match="does not run"),
        GpuRunner(tmp_path, TRAPS / "gemm" / "start.py", python="/bin/false"),
    ):
        pass
