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
        ((*GEMM, "--op", "softmax", "--atomics", "2"), "--atomics is not for --op softmax, but for gemm"),
        ((*GEMM, "--measured", "nan"), "no finite number"),
        ((*GEMM, "--rms", "0"), "not positive"),
        ((*GEMM, "--rms", "inf"), "no finite number"),
        ((*GEMM, "--rms", "1e39"), "give 1e+38 at most"),
        ((*GEMM, "--rms", "1e-39"), "give 1e-38 at least"),
        ((*GEMM, "--measured", "1e300"), "give 1e+38 at most"),
        ((*GEMM, "--op", "layernorm", "--offset", "1e300"), "give 1e+38 at most"),
        ((*GEMM, "--op", "layernorm", "--k", "1"), "give 2 or more"),
        ((*GEMM, "--op", "softmax", "--depth", "3"), "--depth is not for --op softmax, but for attention"),
        ((*GEMM, "--op", "softmax", "--rms", "3"), "no softmax of 4096 scores is above 1"),
        ((*GEMM, "--op", "exp,,"), "an operation has no name"),
        ((*GEMM, "--op", "cast:foo"), "give one of these"),
        ((*GEMM, "--op", "exp", "--accum", "int32"), "give float32"),
        (("--dtype", "tf32", "--k", "4"), "give float32 and --in tf32"),
        (("--dtype", "float16", "--k", "-4"), "a whole number from 1 to 2^48"),
        (("--dtype", "float16", "--k", "1.5e0"), "a whole number from 1 to 2^48"),
        (("--dtype", "int32", "--k", "64", "--rms", "3e9"), "is above 1.04858e+06"),
    ],
)
def test_bad_usage_says_what_to_do(words: tuple[str, ...], complaint: str) -> None:
    done = tolerance(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("triage: ") and complaint in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # 64 of the products 128 * 128 are 2^20, in int32 with room, in int8 not
        (("--dtype", "int32", "--k", "64"), "No inputs make a result above 1.05e+06, and int32 ends at 2147483647."),
        (("--dtype", "int8", "--k", "64"), "int8 ends at 127: nearly all do not fit, and wrap around, or saturate"),
        (("--dtype", "int32", "--k", "1000000"), "Other inputs can make 1.64e+10, which wraps around"),
        (("--dtype", "int32", "--k", "4", "--accum", "int8"), "int8, in which they are added up, ends at 127"),
        (("--dtype", "int8", "--k", "400", "--op", "sum"), "reach about 8.87e+03, and int8 ends at 127"),
        (("--dtype", "uint32", "--in", "int8", "--k", "64"), "uint32 holds 0 to 4294967295: 50% of them do not fit"),
        (("--dtype", "float16", "--in", "int8", "--k", "64"), "float16 ends at 65504: 13% of them do not fit, and become infinite"),
        (("--dtype", "e4m3", "--k", "1e5"), "float8_e4m3 ends at 448: 16% of them do not fit, and saturate"),
        (("--dtype", "float16", "--k", "1000", "--rms", "30000"), "reach about 1.8e+05, and float16 ends at 65504: 2.9%"),
    ],
)  # fmt: skip
def test_it_says_what_does_not_fit(words: tuple[str, ...], said: str) -> None:
    done = tolerance(*words)
    page = " ".join(done.stdout.split())
    assert (done.returncode, said in page, "holds what" in page) == (0, True, False), page
    assert len(done.stdout.splitlines()) <= 40


@pytest.mark.parametrize(
    "words",
    [GEMM, ("--dtype", "e4m3", "--k", "4096", "--rms", "1"), ("--dtype", "float16", "--op", "softmax", "--k", "8")],
)
def test_nothing_is_said_of_ranges_that_hold_all_results(words: tuple[str, ...]) -> None:
    done = tolerance(*words)
    assert done.returncode == 0 and "RANGE" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dtype", "float16", "--k", "1000000", "--same-sign"), "float16 ends at 65504: nearly all do not fit, and become infinite"),
        (("--dtype", "float32", "--in", "float16", "--accum", "float16", "--k", "1e6", "--same-sign"), "float16, in which they are added up, ends at 65504"),
        (("--dtype", "e5m2", "--k", "1e6", "--same-sign"), "float8_e5m2 ends at 57344: nearly all"),
        ((*GEMM, "--rms", "1e30"), "float16 ends at 65504"),
        ((*GEMM, "--rms", "1e-30"), "below the smallest number of float16, 6e-08"),
        ((*GEMM, "--op", "layernorm", "--offset", "1e9"), "an error of 9.4e+02 times the result"),
        ((*GEMM, "--op", "sum", "--accum", "float16", "--same-sign"), "stands still in float16"),
        ((*GEMM, "--op", "rmsnorm", "--accum", "float16"), "stands still in float16"),
        ((*GEMM, "--op", "exp", "--range", "1e9"), "exp of 1e+09 is beyond float32, which ends at exp(88.72)"),
        ((*GEMM, "--op", "exp,cast:int8"), "a cast to int8 takes the fraction away"),
    ],
)  # fmt: skip
def test_it_gives_no_figures_that_mean_nothing(words: tuple[str, ...], said: str) -> None:
    done = tolerance(*words)
    page = " ".join(done.stdout.split())
    assert (done.returncode, said in page) == (3, True), page
    assert "rtol" not in page.partition("DEFAULTS")[0]
    data = as_json(*words)
    assert (data["state"], data["start"]) == ("unknown", None)


def test_scores_that_are_zero_in_float32_do_not_count() -> None:
    far, farther = (as_json(*GEMM, "--op", "softmax", "--range", size) for size in ("100", "1e9"))
    assert far["expected_rms"] == farther["expected_rms"] < 3e-4


def test_real_sums_that_are_stored_as_whole_numbers_differ_by_a_step() -> None:
    data = as_json("--dtype", "int8", "--in", "float16", "--k", "64")
    assert (data["state"], data["start"]["rtol"], data["start"]["atol"]) == ("unknown", 0.0, 1.0)


def test_whole_numbers_in_float32_are_exact_up_to_its_digits() -> None:
    data = as_json("--dtype", "float32", "--in", "int8", "--k", "1024")
    assert data["ceiling"] == 0.0
    assert as_json("--dtype", "float32", "--in", "int8", "--k", "1025")["ceiling"] > 0


def test_small_results_have_fewer_digits() -> None:
    assert "numbers below 6.1e-05 have fewer digits in float16" in " ".join(
        tolerance(*GEMM, "--rms", "1e-5").stdout.lower().split()
    )


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from triage.cli import main; main(['tolerance', '--dtype', 'float16', '--k', '64'])\n"
        "print(sorted({'torch', 'numpy', 'tilelang', 'networkx', 'libcst', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENV, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
