"""The tolerance model: its formats, what holds of all its models, emulated kernels inside it, and the verdicts it gives."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from emulated import DISTRIBUTIONS, Case, accumulated, dot_case, measured, rounded
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.numerics import operations
from triage.numerics.formats import FORMATS, Format, UnknownFormat, format_of
from triage.numerics.measured import Measured
from triage.numerics.operations import Step, chain_model
from triage.numerics.ranges import without_figures
from triage.numerics.rounding import Accumulator, accumulator_of, gamma, stagnates, sum_error
from triage.numerics.tolerance import (
    NORMAL,
    POSITIVE,
    RMS_FACTOR,
    UPSTREAM,
    Data,
    Dot,
    Model,
    Tolerance,
    Unknown,
    dot_model,
    model_with,
    one_two_five,
    run_to_run,
    suggestion,
    unknown,
)
from triage.numerics.verdict import verdict

HALF, BFLOAT, SINGLE, E4M3 = (FORMATS[name] for name in ("float16", "bfloat16", "float32", "float8_e4m3"))
SEEDS = range(5)


def gemm(k: int, kept: str = "float32", of: Format = HALF, out: Format | None = None, **more: Any) -> Dot:
    return Dot(k, of, accumulator_of(kept, of), out or of, None, **more)


def emulated(dot: Dot, seed: int = 0, distribution: str = "normal", results: int = 256) -> tuple[Case, Model]:
    case, known = dot_case(dot, distribution, results, np.random.default_rng(seed))
    return case, dot_model(known)


# --------------------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"),
        ("float8_e4m3fn", "float8_e4m3fn"), ("float8_e4m3fnuz", "float8_e4m3fnuz"), ("float8_e5m2", "float8_e5m2"),
        ("float4_e2m1fn", "float4_e2m1fn"),
    ],
)  # fmt: skip
def test_formats_are_what_their_implementations_say(name: str, like: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    info = ml_dtypes.finfo(getattr(np, like, None) or getattr(ml_dtypes, like))
    known = format_of(name)
    assert (known.u, known.largest) == (float(info.eps) / 2, float(info.max))
    assert known.floor == float(info.smallest_subnormal) / 2 or known.floor == 0.0  # of float64 half of it is no number


@pytest.mark.parametrize(
    ("word", "name"),
    [("torch.float16", "float16"), ("half", "float16"), ("BF16", "bfloat16"), ("tf32", "tfloat32"), ("T.float8_e5m2fnuz", "float8_e5m2"), ("fp8_e4m3", "float8_e4m3")],
)  # fmt: skip
def test_formats_have_the_names_people_write(word: str, name: str) -> None:
    assert format_of(word).name == name


def test_a_format_nobody_knows_is_said() -> None:
    with pytest.raises(UnknownFormat, match="'float17' is no number format"):
        format_of("float17")


def test_integers_are_exact() -> None:
    assert (FORMATS["int32"].u, FORMATS["int8"].largest, FORMATS["uint8"].largest) == (0.0, 127, 255)


@given(st.floats(-4e4, 4e4), st.sampled_from(["float16", "float32", "bfloat16"]))
def test_the_emulation_rounds_as_the_formats_do(x: float, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    real = getattr(np, name, None) or getattr(ml_dtypes, name)
    x = float(np.float32(x))  # ml_dtypes rounds a float64 twice
    assert rounded(np.array([x]), FORMATS[name])[0] == float(np.array([x], dtype=np.float32).astype(real)[0])


# ------------------------------------------------------------------------------------------- what holds of every model

dots = st.builds(
    lambda k, of, kept, out, reference, same, atomics, positive: Dot(
        k, of, accumulator_of(kept, of), out, reference, POSITIVE if positive else NORMAL, same, min(atomics, k)
    ),
    st.integers(1, 1 << 20), st.sampled_from([HALF, BFLOAT, SINGLE, E4M3, FORMATS["tfloat32"]]),
    st.sampled_from(["float32", "float16", "bfloat16", "hopper-fp8", "hopper-fp8-promoted"]),
    st.sampled_from([HALF, BFLOAT, SINGLE, E4M3]), st.sampled_from([None, HALF, SINGLE, FORMATS["float64"]]),
    st.booleans(), st.sampled_from([0, 1, 7, 128]), st.booleans(),
)  # fmt: skip


@given(dots, st.floats(1e-3, 1e6), st.floats(0, 1))
def test_the_ceiling_is_never_below_the_band(dot: Dot, s: float, share: float) -> None:
    model = dot_model(dot)
    assert 0 < model.limit(s, share * s) <= model.ceiling(s, share * s) * (1 + 1e-12)


@given(dots, st.floats(0, 6))
def test_the_tolerance_holds_the_band_of_every_result(dot: Dot, size: float) -> None:
    model = dot_model(dot)
    r = min(size * model.r, model.s)
    found = suggestion(model, model.s, model.r)
    if math.isfinite(found.atol):
        assert found.atol + found.rtol * r >= model.limit(model.s, r) * (1 - 1e-9)


@given(dots, st.integers(2, 64))
def test_longer_sums_err_more(dot: Dot, times: int) -> None:
    if dot.accumulator.promoted is not None:  # then errors stay where they are
        dot = replace(dot, accumulator=accumulator_of("hopper-fp8", dot.inputs))
    longer = replace(dot, k=dot.k * times)
    for data in (NORMAL, POSITIVE):
        short, long = (sum_error(one.k, data.kappa, one.accumulator) for one in (dot, longer))
        at = [(data.s(one.k) / data.r(one.k)) for one in (dot, longer)]
        errors = [math.sqrt(e.per_s2 * s * s + e.per_r2) for e, s in zip((short, long), at, strict=True)]
        assert errors[0] <= errors[1] * (1 + 1e-9)
        assert short.worst <= long.worst and short.probable <= long.probable


@given(st.integers(1, 1 << 16), st.sampled_from([1, 16, 64]), st.booleans())
def test_coarser_formats_err_more(k: int, group: int, truncates: bool) -> None:
    errors = [
        sum_error(k, NORMAL.kappa, Accumulator("", Format("", digits, 1e38), group, truncates))
        for digits in (53, 24, 14, 11, 8)
    ]
    for fine, coarse in pairwise(errors):
        assert fine.per_s2 <= coarse.per_s2 and fine.per_r2 <= coarse.per_r2 and fine.worst <= coarse.worst


@given(st.integers(1, 1 << 20), st.floats(1, 30), st.floats(0, 1))
def test_rms_worst_and_probable_are_in_order(k: int, kappa: float, share: float) -> None:
    error = sum_error(k, min(kappa, k), Accumulator("float32", SINGLE))
    r2 = share * min(1.0, kappa)
    assert math.sqrt(error.per_s2 + error.per_r2 * r2) <= error.worst * (1 + 1e-9)
    assert error.probable <= error.worst


def test_the_worst_case_is_what_numerical_analysis_proves() -> None:
    assert gamma(4096, 2.0**-24) == pytest.approx(4096 * 2.0**-24, rel=1e-3)
    assert gamma(4096, 2.0**-11) == math.inf


@given(st.floats(1e-30, 1e30))
def test_steps_of_one_two_five(value: float) -> None:
    step = one_two_five(value)
    assert value * (1 - 1e-9) <= step <= value * 2.51
    assert f"{step:.0e}"[0] in "125"
    assert one_two_five(step) == step


# ---------------------------------------------------------------------------------------------- against measured errors


def test_the_errors_measured_on_a_gpu_are_predicted() -> None:
    """One H200, normal float16 inputs, K = 4096: |c - a @ b| / |a @ b|."""
    for kept, seen in (("float32", 2.077e-4), ("float16", 2.351e-3)):
        model = dot_model(gemm(4096, kept))
        assert model.rms(model.s, model.r) / model.r == pytest.approx(seen, rel=0.02)


KERNELS = [
    gemm(512), gemm(2048, "float16"), gemm(512, of=BFLOAT), gemm(2048, out=SINGLE), gemm(2048, of=SINGLE),
    gemm(2048, "hopper-fp8", E4M3, SINGLE), gemm(2048, "hopper-fp8-promoted", E4M3, SINGLE), gemm(512, of=BFLOAT, out=SINGLE, reads_rounded=False),
    gemm(512, of=FORMATS["tfloat32"], out=SINGLE, reads_rounded=False), gemm(2048, atomics=32, out=SINGLE), gemm(2048, atomics=32),
]  # fmt: skip


@pytest.mark.parametrize(
    "dot", KERNELS, ids=lambda d: f"{d.inputs.name}-{d.accumulator.name}-{d.output.name}-{d.k}-{d.atomics}"
)
@pytest.mark.parametrize("distribution", ["normal", "uniform", "positive"])
def test_right_kernels_are_inside(dot: Dot, distribution: str) -> None:
    for seed in SEEDS:
        case, model = emulated(dot, seed, distribution)
        expected = math.sqrt(sum(model.rms(s, r) ** 2 for s, r in zip(case.s, case.r, strict=True)) / case.s.size)
        seen = measured(case, model)
        assert expected / RMS_FACTOR <= seen.rms_error <= expected * 1.5
        assert seen.outside == 0
        if dot.accumulator.name != "float16" and dot.accumulator.name != "hopper-fp8":
            assert verdict(model, seen).kind == "inside"


@pytest.mark.parametrize("k", [1024, 4096])
@pytest.mark.parametrize("group", [1, 16, 32])
def test_float16_accumulators_are_outside_from_1024_on(k: int, group: int) -> None:
    wide = dot_model(gemm(k))
    for seed in SEEDS:
        dot = replace(gemm(k), accumulator=Accumulator("float16", HALF, group))
        case, _ = emulated(dot, seed, results=64)
        seen = measured(case)
        assert seen.rms_error > RMS_FACTOR * wide.rms(wide.s * seen.rms_result / wide.r, seen.rms_result)
        assert verdict(wide, seen).kind in ("accumulator", "outside")
        assert verdict(dot_model(gemm(k, "float16", declared=True)), seen).kind == "accumulator"


def test_a_sum_of_one_sign_that_stands_still_is_said_to() -> None:
    assert stagnates(4096, Accumulator("float16", HALF)) and not stagnates(4096, accumulator_of("float32", HALF))
    dot = replace(gemm(4096), accumulator=Accumulator("float16", HALF), data=POSITIVE)
    assert dot_model(dot).stagnates and "stands still in float16" in str(without_figures(dot_model(dot), 1024.0))
    case, model = emulated(dot, distribution="positive", results=32)
    assert measured(case).rms_error > 5 * model.rms(float(case.s.mean()), float(case.r.mean()))
    assert verdict(replace(model, dot=replace(model.dot or dot, declared=True)), measured(case)).kind == "accumulator"


def test_two_runs_with_atomics_differ_as_expected() -> None:
    terms = rounded(np.random.default_rng(0).standard_normal((256, 1024)), SINGLE)
    generator = np.random.default_rng(1)
    once, again = (accumulated(generator.permuted(terms, axis=-1), Accumulator("float32", SINGLE)) for _ in range(2))
    data = Data("normal", math.pi / 2, 1.0)
    rms, race = run_to_run(
        Dot(1024, SINGLE, accumulator_of("float32", SINGLE), SINGLE, None, data, atomics=1024), data.s(1024), 32.0
    )
    assert rms / 1.3 < float(np.sqrt(((once - again) ** 2).mean())) < rms * 1.3
    assert float(np.abs(once - again).max()) < race


# -------------------------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(
    ("of", "out"), [(HALF, HALF), (HALF, SINGLE), (BFLOAT, BFLOAT), (SINGLE, SINGLE)], ids=lambda f: f.name
)
def test_no_right_kernel_is_accused_whatever_its_inputs_are(distribution: str, of: Format, out: Format) -> None:
    """The model takes them for normal, as it must where nobody says."""
    for k, reference, seed in ((32, None, 0), (512, out, 1), (1024, None, 2)):
        dot = replace(gemm(k, of=of, out=out), reference=reference)
        case, _ = emulated(dot, seed, distribution)
        if reference is not None:
            kept = rounded(case.r, reference)
            case = Case(case.r + case.error - kept, case.s, kept)
        model = dot_model(dot)
        for seen in (measured(case), measured(case, model)):
            heavy = distribution in ("few large", "lognormal", "cauchy")
            assert verdict(model, seen).kind in (("inside", "unknown") if heavy else ("inside",))


def test_a_tolerance_that_is_too_tight() -> None:
    case, model = emulated(gemm(1024))
    found = verdict(model, measured(case, model), Tolerance(1e-5, 1e-5))
    assert (found.kind, found.used) == ("inside", Tolerance(1e-5, 1e-5))
    assert found.allowed is not None
    assert (np.abs(case.error) <= found.allowed.atol + found.allowed.rtol * np.abs(case.r)).all()
    assert found.allowed.rtol <= 2e-3
    assert found.expected == pytest.approx(found.measured, rel=0.2)
    assert found.ceiling is not None and found.ceiling > (found.expected or 1)
    assert any("normal" in one for one in found.assumptions)


def test_a_missing_tile_of_k_is_a_fault() -> None:
    case, model = emulated(gemm(4096))
    lost = np.random.default_rng(1).standard_normal(case.r.size) * math.sqrt(32)  # 32 of 4096 products
    found = verdict(model, measured(replace(case, error=case.error + lost)))
    assert found.kind == "outside" and "times what rounding explains" in found.says


def test_few_wrong_elements_are_a_fault_though_all_together_look_right() -> None:
    case, model = emulated(gemm(1024), results=4096)
    error = case.error.copy()
    error[7] = float(np.sqrt((case.error**2).sum())) * 0.7
    for seen in (measured(replace(case, error=error), model), measured(replace(case, error=error))):
        found = verdict(model, seen)
        assert found.kind == "outside" and "few elements" in found.says


def test_no_cause_of_wrong_sums_is_named_where_a_tile_is_wrong() -> None:
    case, model = emulated(gemm(128), results=4096)
    error = case.error.copy()
    error[-16:] = -case.r[-16:]
    for seen in (measured(replace(case, error=error), model), measured(replace(case, error=error))):
        found = verdict(model, seen)
        assert (found.kind, found.others) == ("outside", ())


def test_values_that_are_no_numbers_are_a_fault() -> None:
    seen = replace(measured(emulated(gemm(64))[0]), nonfinite=1)
    assert verdict(dot_model(gemm(64)), seen).kind == "outside"


def test_an_accumulator_that_was_not_declared_is_named_where_nothing_else_fits() -> None:
    case, _ = emulated(gemm(4096, "float16"))
    found = verdict(dot_model(gemm(4096)), measured(case))
    assert (found.kind, found.accumulator, found.others) == ("accumulator", "float16", ())
    assert "quarter of K" in found.check
    assert found.allowed is not None and found.allowed.atol > 0.1


def test_an_accumulator_that_was_not_declared_may_be_something_else() -> None:
    """In 32 groups of 128 the error of float16 is as large as that of one rounding to bfloat16."""
    case, _ = emulated(replace(gemm(4096), accumulator=Accumulator("float16", HALF, 32)))
    found = verdict(dot_model(gemm(4096)), measured(case))
    assert found.kind == "outside"
    assert found.others == ("a float16 accumulator", "one more rounding to bfloat16")
    assert "quarter of K" in found.check


@pytest.mark.parametrize(
    ("dot", "wrong", "cause"),
    [
        (gemm(1024), lambda case: case.error + 0.004 * case.r, "a factor of 1.004"),
        (gemm(1024), lambda case: rounded(case.r + case.error, BFLOAT) - case.r, "one more rounding to bfloat16"),
        (gemm(1024), lambda case: case.error + case.s / 1024 * np.random.default_rng(9).standard_normal(case.s.size) * 6, "products lost"),
    ],
)  # fmt: skip
def test_what_else_makes_an_error_of_this_size(dot: Dot, wrong: Any, cause: str) -> None:
    case, model = emulated(dot)
    found = verdict(model, measured(replace(case, error=wrong(case))))
    assert found.kind == "outside"
    assert any(cause in one for one in found.others), found.others


def test_a_reference_that_reads_inputs_as_they_were() -> None:
    case, _ = emulated(gemm(1024, of=E4M3, out=BFLOAT, reads_rounded=False))
    found = verdict(dot_model(gemm(1024, of=E4M3, out=BFLOAT, declared=True)), measured(case))
    assert found.kind == "outside"
    assert found.others[0] == "a reference that reads the inputs before they were rounded to float8_e4m3"


def test_a_factor_is_no_accumulator_even_where_one_was_declared() -> None:
    case, _ = emulated(gemm(4096))
    scaled = replace(case, error=case.error + 0.0023 * case.r)
    assert verdict(dot_model(gemm(4096, "float16", declared=True)), measured(scaled)).kind == "outside"


def test_a_declared_accumulator_is_the_only_one_looked_at() -> None:
    case, _ = emulated(gemm(4096, "float16"))
    wide, narrow = (dot_model(gemm(4096, kept, declared=True)) for kept in ("float32", "float16"))
    assert verdict(wide, measured(case)).kind == "outside"
    found = verdict(narrow, measured(case))
    assert (found.kind, found.others) == ("accumulator", ())


def test_a_narrow_accumulator_that_does_no_harm_is_inside() -> None:
    """At K = 16 one instruction adds everything up."""
    case, _ = emulated(gemm(16, "float16"))
    assert verdict(dot_model(gemm(16, "float16", declared=True)), measured(case)).kind == "inside"


def test_the_fourteen_bits_of_hopper() -> None:
    case, _ = emulated(gemm(4096, "hopper-fp8", E4M3, SINGLE))
    found = verdict(dot_model(gemm(4096, of=E4M3, out=SINGLE, declared=True)), measured(case))
    assert (found.kind, found.accumulator) == ("accumulator", "hopper-fp8")
    promoted, _ = emulated(gemm(4096, "hopper-fp8-promoted", E4M3, BFLOAT))
    assert verdict(dot_model(gemm(4096, of=E4M3, out=BFLOAT)), measured(promoted)).kind == "inside"


def test_a_scaled_result_is_a_fault() -> None:
    case, model = emulated(gemm(1024))
    assert verdict(model, measured(replace(case, error=case.error + 0.5 * case.r))).kind == "outside"


def test_what_no_model_knows_is_unknown() -> None:
    no = unknown("gelu", "it cancels", HALF)
    found = verdict(no, Measured(4, 1e-4, 1.0, 1e-3, 2.0))
    assert (found.kind, found.allowed) == ("unknown", Tolerance(1e-3, 1e-3, 0.001))
    no_terms = replace(dot_model(gemm(64)), dot=gemm(0))  # a loop that never runs
    assert verdict(no_terms, Measured(16, 1.0, 1.0, 2.0, 2.0)).kind == "unknown"
    assert verdict(dot_model(gemm(64)), Measured(0, 0.0, 0.0, 0.0, 0.0)).kind == "unknown"


def test_equal_results_are_inside_whatever_their_size() -> None:
    assert verdict(dot_model(gemm(64)), Measured(16, 0.0, 0.0, 0.0, 0.0)).kind == "inside"


def test_wrong_results_where_zero_is_right_are_a_fault() -> None:
    assert verdict(dot_model(gemm(64)), Measured(16, 1.0, 0.0, 2.0, 0.0)).kind == "outside"


def test_errors_over_s_are_judged_by_s() -> None:
    case, model = emulated(gemm(1024, out=SINGLE))
    seen = measured(case)
    over = float((np.abs(case.error) / case.s).max())
    s = float(np.sqrt((case.s**2).mean()))
    assert verdict(model, replace(seen, rms_s=s, max_over_s=over)).kind == "inside"
    assert verdict(model, replace(seen, rms_s=s, max_over_s=1e-2)).kind == "outside"


def test_integers_are_exact_and_any_difference_is_a_fault() -> None:
    eight = FORMATS["int8"]
    model = dot_model(Dot(1024, eight, accumulator_of("int32", eight), FORMATS["int32"], None))
    assert model.ceiling(model.s, model.r) == 0
    assert verdict(model, Measured(16, 0.25, 100.0, 1.0, 300.0)).kind == "outside"


# ------------------------------------------------------------------------------------------------------------ what is said


def test_every_term_says_what_it_assumes() -> None:
    model = dot_model(Dot(4096, HALF, accumulator_of("float32", HALF), HALF, HALF))
    assert {term.name for term in model.terms} == {
        "inputs",
        "accumulation",
        "output",
        "reference",
        "reference rounding",
    }
    assert all(term.says for term in model.terms)
    assert any("reads the rounded inputs" in one for one in model.assumptions)


def test_inputs_count_only_where_the_reference_reads_others() -> None:
    same, other = (dot_model(gemm(1024, of=BFLOAT, reads_rounded=rounded_too)) for rounded_too in (True, False))
    assert same.terms[0].rms(same.s, same.r) == 0
    # 0.53 to 0.58 u of the result, whatever K is
    assert other.terms[0].rms(other.s, other.r) / other.r == pytest.approx(0.6 * BFLOAT.u, rel=0.1)


def test_a_model_of_something_else_has_no_other_accumulator() -> None:
    assert model_with(operations.sum_model(64, SINGLE, HALF, None), "float16") is None


def test_upstream_defaults_accept_what_the_model_calls_a_fault() -> None:
    """Why they are printed beside what is used."""
    model = dot_model(gemm(4096))
    found = suggestion(model, model.s, model.r)
    for one in UPSTREAM.values():
        assert one.rtol > found.rtol


# ------------------------------------------------------------------------------------------------------------ operations


def known(model: Model | Unknown) -> Model:
    assert isinstance(model, Model)
    return model


def test_an_exponential_amplifies_by_the_size_of_its_argument() -> None:
    small, large = (
        known(chain_model([Step("cast:float16"), Step("exp", magnitude=x)], SINGLE, SINGLE, None)) for x in (1.0, 20.0)
    )
    assert large.rms(1, 1) / small.rms(1, 1) == pytest.approx(20, rel=0.01)
    assert (
        known(chain_model([Step("exp", magnitude=9.0)], SINGLE, SINGLE, None, fast=True)).ceiling(1, 1) > 9 * SINGLE.u
    )


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Step("gelu"), "cancel"), (Step("exp"), "how large"), (Step("sub"), "condition"), (Step("frobnicate"), "nothing is known"),
        (Step("cast:float17"), "float17"), (Step("log", magnitude=0.0), "no bound"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_of_an_operation_is_not(step: Step, why: str) -> None:
    found = chain_model([Step("mul"), step], SINGLE, BFLOAT, None)
    assert isinstance(found, Unknown) and why in found.why
    assert found.start == Tolerance(1e-2, 1e-2, 0.001)


def test_a_subtraction_with_a_known_condition() -> None:
    error = known(chain_model([Step("cast:float16"), Step("sub", condition=100.0)], SINGLE, SINGLE, None))
    assert error.ceiling(1, 1) == pytest.approx(100 * HALF.u, rel=0.01)


def test_where_nothing_is_known_of_a_format_one_spacing_is_the_start() -> None:
    assert unknown("x", "y", E4M3).start == Tolerance(0.125, 0.125)
    assert unknown("x", "y", FORMATS["int8"]).start == Tolerance(0.0, 1.0)


@pytest.mark.parametrize("out", [HALF, BFLOAT, SINGLE], ids=lambda f: f.name)
@pytest.mark.parametrize("n", [256, 2048])
def test_a_softmax_is_inside(out: Format, n: int) -> None:
    for seed in SEEDS:
        x = rounded(np.random.default_rng(seed).standard_normal((16, n)), HALF)
        narrow = x.astype(np.float32)
        e = np.exp(narrow - narrow.max(-1, keepdims=True))
        computed = rounded((e / np.cumsum(e, -1, dtype=np.float32)[:, -1:]).astype(np.float64), out)
        wide = np.exp(x - x.max(-1, keepdims=True))
        exact = wide / wide.sum(-1, keepdims=True)
        model = known(operations.softmax_model(n, 9.0, SINGLE, out, None))
        case = Case((computed - exact).ravel(), np.ones(exact.size), exact.ravel())
        assert verdict(model, measured(case, model)).kind == "inside"
        # without its maximum the exponentials are right, too; without its last eighth the sum is not
        cut = Case((exact * n / (n - n // 8) - exact).ravel(), case.s, case.r)
        assert verdict(model, measured(cut, model)).kind == "outside"


@pytest.mark.parametrize("out", [HALF, SINGLE], ids=lambda f: f.name)
def test_norms_are_inside(out: Format) -> None:
    for seed in SEEDS:
        x = rounded(np.random.default_rng(seed).standard_normal((16, 1024)) + 1, HALF)
        narrow, count = x.astype(np.float32), np.float32(1024)
        scale = np.float32(1) / np.sqrt(np.cumsum(narrow * narrow, -1, dtype=np.float32)[:, -1:] / count)
        exact = x / np.sqrt((x * x).mean(-1, keepdims=True))
        model = known(operations.rmsnorm_model(1024, SINGLE, out, None))
        error = rounded((narrow * scale).astype(np.float64), out) - exact
        assert verdict(model, measured(Case(error.ravel(), np.ones(exact.size), exact.ravel()), model)).kind == "inside"
        centred = narrow - np.cumsum(narrow, -1, dtype=np.float32)[:, -1:] / count
        computed = centred / np.sqrt(np.cumsum(centred * centred, -1, dtype=np.float32)[:, -1:] / count)
        exact = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
        model = operations.layernorm_model(1024, 1.0, SINGLE, out, None)
        error = rounded(computed.astype(np.float64), out) - exact
        assert verdict(model, measured(Case(error.ravel(), np.ones(exact.size), exact.ravel()), model)).kind == "inside"


def test_attention_rounds_its_probabilities() -> None:
    narrow, wide = (known(operations.attention_model(1024, 64, 9.0, of, HALF, None)) for of in (HALF, SINGLE))
    assert narrow.rms(narrow.s, narrow.r) / wide.rms(wide.s, wide.r) == pytest.approx(math.sqrt(2), rel=0.02)


def test_a_sum_is_relative_to_what_goes_in() -> None:
    model = operations.sum_model(4096, SINGLE, SINGLE, None)
    assert model.s / model.r == pytest.approx(64 / math.sqrt(math.pi / 2))
    assert model.rms(model.s, model.r) / model.r == pytest.approx(0.3 * 64 * SINGLE.u, rel=0.1)


settings.register_profile("numerics", deadline=None)
settings.load_profile("numerics")
