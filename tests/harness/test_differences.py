"""How far two tensors are apart in numbers, and what that says of rounding: right programs against faults of every size."""

from __future__ import annotations

import math

import pytest

from triage.model import Differences, from_json
from triage.numerics.steps import by_spacings

torch = pytest.importorskip("torch")
TYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int32", "uint8", "float8_e4m3fn", "float8_e5m2", "bool"]


@pytest.fixture(scope="module")
def measure(harness):
    def differences(actual, expected, *types) -> Differences:
        return from_json(Differences, harness("mismatch").differences(actual, expected, types))

    return differences


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_can_be_measured(measure, dtype) -> None:
    kind = getattr(torch, dtype)
    found = measure(torch.tensor([0.0, 1.0, 1.0, 0.0]).to(kind), torch.tensor([0.0, 1.0, 0.0, 1.0]).to(kind))
    assert (found.count, found.unequal, found.rms_error, found.max_error) == (4, 2, math.sqrt(0.5), 1.0)
    assert (found.expected, found.kept, found.gain, found.mean_expected) == (dtype, dtype, -0.5, 0.5)


@pytest.mark.parametrize(("actual", "expected"), [([], []), ([math.nan], [math.nan]), ([math.inf], [math.inf])])
def test_nothing_to_measure(measure, actual, expected) -> None:
    found = measure(torch.tensor(actual), torch.tensor(expected))
    assert (found.count, found.nonfinite, found.unequal, found.gain) == (0, 0, 0, None)
    assert not by_spacings(found, placed=False, real=True).inside


def test_numbers_on_one_side_only_are_counted_and_left_out(measure) -> None:
    found = measure(torch.tensor([1.0, math.nan, math.inf, 2.5]), torch.tensor([1.0, 1.0, -math.inf, 2.0]))
    assert (found.count, found.nonfinite, found.max_error) == (2, 2, 0.5)
    assert not by_spacings(found, placed=False, real=True).inside


@pytest.mark.parametrize(
    ("expected", "dtype", "spacing"),
    [
        (1.0, "float16", 2**-10), (1.999, "float16", 2**-10), (2.0, "float16", 2**-9), (100.0, "bfloat16", 0.5),
        (-3.0, "float8_e4m3fn", 0.25), (448.0, "float8_e4m3fn", 32.0), (7.0, "float32", 2**-21), (50.0, "int8", 1.0),
    ],
)  # fmt: skip
def test_errors_are_counted_in_spacings_of_the_type_that_values_were_kept_in(measure, expected, dtype, spacing) -> None:
    reference = torch.tensor([expected], dtype=torch.float64)
    found = measure(reference + 3 * spacing, reference, getattr(torch, dtype))
    assert found.kept == dtype
    left = max(0.0, 3 - 32 * 2**-24 * abs(expected) / spacing)
    assert found.max_steps == pytest.approx(left, abs=1e-6) and found.max_scaled_steps == pytest.approx(3, abs=1e-6)


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "float16"])
@pytest.mark.parametrize("scale", [0.5, 1.0, 5000.0])
def test_a_reference_that_was_rounded_before_a_cast_counts_as_rounded(measure, dtype, scale) -> None:
    torch.manual_seed(0)
    exact = torch.randn(500) * min(scale, torch.finfo(getattr(torch, dtype)).max / 8)
    rounded = exact.to(getattr(torch, dtype)).float()
    found = measure(exact, rounded, torch.float32)
    assert (found.expected, found.kept) == (dtype, dtype)
    assert measure(rounded, exact, torch.float32).kept == "float32"  # a launch that rounds too much is not excused
    assert measure(rounded, exact).kept == dtype


@pytest.mark.parametrize("most", [2, 50, 256, 2000])
def test_counts_are_no_rounded_numbers(measure, most) -> None:
    counts = torch.randint(0, most, (1000,)).float()
    assert measure(counts, counts + 1).kept == "float32"


def test_pieces_make_the_same_as_the_whole(measure, harness, monkeypatch) -> None:
    torch.manual_seed(0)
    actual, expected = torch.randn(40, 7), torch.randn(40, 7)
    whole = measure(actual, expected)
    monkeypatch.setattr(harness("mismatch"), "PIECE", 13)
    pieces = measure(actual, expected)
    for name in ("rms_error", "max_error", "mean_error", "rms_expected", "gain", "rms_steps", "max_steps"):
        assert getattr(pieces, name) == pytest.approx(getattr(whole, name)), name
    assert (whole.count, whole.max_error) == (280, float((actual.double() - expected.double()).abs().max()))


# ------------------------------------------------------------------------------------------------------------ rounding

N = 20000


def values(dtype: str = "float32"):
    torch.manual_seed(1)
    return torch.randn(N, dtype=torch.float64).to(getattr(torch, dtype))


def rounded(values, dtype: str):
    return values.to(getattr(torch, dtype)).double()


RIGHT = {
    "once, to the type of the result": lambda x, kind: (rounded(x, kind), x, kind),
    "both sides": lambda x, kind: (rounded(x * (1 + 2**-12 * torch.randn(N)), kind), rounded(x, kind), kind),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("how", RIGHT)
def test_rounding_is_inside(measure, how, dtype) -> None:
    if (how, dtype) == ("both sides", "float16"):
        pytest.skip("that would be an error of its own")
    actual, expected, kept = RIGHT[how](values().double(), dtype)
    told = by_spacings(measure(actual, expected, getattr(torch, kept)), placed=False, real=True)
    assert told.inside, told
    assert torch.allclose(actual, expected, rtol=told.allowed.rtol, atol=told.allowed.atol)


def test_rounding_on_the_way_is_inside(measure) -> None:
    a, b = values("float16"), values("float16").flip(0)
    assert by_spacings(
        measure(torch.nn.functional.silu(a) * b, torch.nn.functional.silu(a.float()) * b), False, True
    ).inside


def test_numbers_that_go_to_the_other_integer_are_inside_and_exact_ones_are_not(measure) -> None:
    scaled = values().double() * 40
    actual = (scaled * (1 + 1e-4 * torch.randn(N))).round().clamp(-127, 127).to(torch.int8)
    found = measure(actual, scaled.round().clamp(-127, 127))
    assert by_spacings(found, placed=False, real=True).inside
    assert not by_spacings(found, placed=False, real=False).inside


FAULTS = {
    "a factor": lambda x: x * 1.002,
    "a summand": lambda x: x + 0.004,
    "one term of 4096 lost": lambda x: x + torch.randn(N) / 64,
    "one element": lambda x: torch.cat([x[:-1], x[-1:] + 0.1]),
    "one row normalized by another": lambda x: x * (1 + 0.05 * torch.randn(100)).repeat_interleave(N // 100),
    "another constant": lambda x: x + 1e-3 * x.abs(),
    "zero": lambda x: x * 0,
    "noise as large as a spacing": lambda x: x * (1 + 2**-7 * torch.randn(N)),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_not_inside(measure, fault, dtype) -> None:
    x = values().double()
    found = measure(rounded(FAULTS[fault](x), dtype), x, getattr(torch, dtype))
    assert not by_spacings(found, placed=False, real=True).inside, found


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    "fault", [name for name in FAULTS if name not in ("a factor", "another constant", "one element")]
)
def test_faults_in_types_of_eight_bits(measure, fault, dtype) -> None:
    if fault == "noise as large as a spacing":
        pytest.skip("it is below these spacings")
    x = values().double()
    actual, expected = rounded(FAULTS[fault](x), dtype), rounded(x, dtype)
    found = measure(actual, expected, getattr(torch, dtype))
    assert not by_spacings(found, placed=False, real=True).inside, found


def test_float64_that_was_computed_in_float32_is_not_inside(measure) -> None:
    x = values().double() + torch.randn(N, dtype=torch.float64) * 1e-10
    assert by_spacings(
        measure(x * (1 + 4e-16 * torch.randn(N, dtype=torch.float64)), x), placed=False, real=True
    ).inside
    found = measure((x.float() * 3.0).double(), x * 3.0, torch.float64)
    assert found.kept == "float64" and not by_spacings(found, placed=False, real=True).inside, found


def test_truncation_leans(measure) -> None:
    scaled = values().double() * 40
    found = measure(scaled.trunc().to(torch.int8), scaled.round())
    assert not by_spacings(found, placed=False, real=True).inside


def test_a_place_is_no_rounding(measure) -> None:
    x = values().double()
    assert not by_spacings(measure(rounded(x, "float16"), x, torch.float16), placed=True, real=True).inside
