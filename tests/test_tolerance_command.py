"""`triage tolerance` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENV = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
GEMM = ("--dtype", "float16", "--k", "4096")


def tolerance(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "triage", "tolerance", *words], cwd=cwd, env=ENV, capture_output=True, text=True, timeout=60
    )  # fmt: skip


def as_json(*words: str) -> dict[str, Any]:
    done = tolerance(*words, "--json", "-")
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize(
    "words",
    [
        GEMM,
        (*GEMM, "--measured", "2.35e-3"),
        ("--dtype", "bfloat16", "--k", "16384", "--in", "e4m3", "--atomics", "8", "--unrounded", "--measured", "0.02"),
        ("--dtype", "float16", "--k", "65536", "--accum", "float16", "--same-sign"),
        ("--dtype", "bfloat16", "--k", "4096", "--op", "attention", "--reference", "float32"),
        ("--dtype", "float16", "--k", "1024", "--op", "exp,mul,sum,cast:bfloat16"),
        ("--dtype", "int32", "--k", "1000000"),
        ("--dtype", "float16", "--k", "64", "--op", "gelu"),
    ],
)
def test_it_fits_one_screen(words: tuple[str, ...]) -> None:
    lines = tolerance(*words).stdout.splitlines()
    assert 0 < len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_it_explains_itself() -> None:
    done = tolerance(*GEMM)
    assert done.returncode == 0
    for said in (
        "together              2.1e-04   1.2e-02",
        "an rms error up to 4.1e-04",
        "results of rms 64: rtol=0.001, atol=0.01",
        "u sqrt(K) = 3.1e-02",
        "a float16 accumulator errs by 8.4e-04 to 9.4e-03 (rms): outside the band",
        "torch_assert_close rtol=0.01, atol=0.001",
        "Profiler.assert_allclose rtol=0.01, atol=0.01",
        "Inputs are normal with mean 0 and variance 1",
    ):
        assert " ".join(said.split()) in " ".join(done.stdout.split()), said


@pytest.mark.parametrize(
    ("error", "accum", "kind", "status"),
    [
        ("2.077e-4", None, "inside", 0),
        ("2.351e-3", None, "accumulator", 1),
        ("2.351e-3", "float32", "outside", 1),
        ("2.351e-3", "float16", "accumulator", 1),
        ("0.2", None, "outside", 1),
    ],
)
def test_it_judges_what_was_measured(error: str, accum: str | None, kind: str, status: int) -> None:
    words = (*GEMM, "--measured", error, *(("--accum", accum) if accum else ()))
    done = tolerance(*words)
    assert (done.returncode, f"VERDICT    {kind}: " in done.stdout) == (status, True)
    assert as_json(*words)["verdict"]["kind"] == kind


def test_json_holds_what_is_needed_to_judge_any_element() -> None:
    data = as_json("--dtype", "float32", "--in", "float16", "--k", "1024", "--atomics", "4", "--rms", "3")
    assert (data["schema"], data["state"], data["rms_result"]) == ("triage.tolerance/1", "known", 3.0)
    mean_square = sum(term["per_s2"] * data["s"] ** 2 + term["per_r2"] * 9 for term in data["terms"])
    assert mean_square**0.5 / 3 == pytest.approx(data["expected_rms"])
    assert data["accepted_rms"] == data["rms_factor"] * data["expected_rms"] < data["ceiling"]
    assert set(data["tolerance"]) == {"rtol", "atol", "max_mismatched_ratio"}
    assert any("kept in float32" in one for one in data["assumptions"])


def test_json_has_no_infinities() -> None:
    data = as_json("--dtype", "float16", "--accum", "float16", "--in", "float32", "--k", "100000")
    assert data["ceiling"] is None


def test_json_goes_to_a_file_beside_the_page(tmp_path: Path) -> None:
    done = tolerance(*GEMM, "--json", str(tmp_path / "out.json"))
    assert "ACCEPT" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["state"] == "known"
    assert tolerance(*GEMM, "--json", str(tmp_path / "no" / "out.json")).returncode == 2


def test_what_nobody_can_compute_is_unknown_and_has_a_start() -> None:
    done = tolerance("--dtype", "float16", "--k", "64", "--op", "gelu")
    assert done.returncode == 3
    assert done.stdout.startswith("UNKNOWN") and "START WITH rtol=0.001, atol=0.001" in done.stdout
    data = as_json("--dtype", "bfloat16", "--k", "64", "--in", "int8", "--accum", "float32")
    assert data["state"] == "unknown" and data["start"]["rtol"] == 0.01


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--dtype", "float17", "--k", "4"), "is no number format"),
        (("--dtype", "float16", "--k", "0"), "is no number of terms"),
        (("--dtype", "float16", "--k", "many"), "is no number of terms"),
        (("--dtype", "float16"), "--k"),
        ((*GEMM, "--atomics", "5000"), "only 4096 products"),
        ((*GEMM, "--accum", "hopper-fp8"), "eight-bit inputs"),
        ((*GEMM, "--op", "softmax", "--atomics", "2"), "a sum of products"),
        ((*GEMM, "--measured", "nan"), "no finite number"),
        ((*GEMM, "--rms", "0"), "not positive"),
    ],
)
def test_bad_usage_says_what_to_do(words: tuple[str, ...], complaint: str) -> None:
    done = tolerance(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("triage: ") and complaint in done.stderr


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from triage.cli import main; main(['tolerance', '--dtype', 'float16', '--k', '64'])\n"
        "print(sorted({'torch', 'numpy', 'tilelang', 'networkx', 'libcst', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENV, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
