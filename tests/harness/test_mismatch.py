"""The summary of what is wrong between two tensors, held against a count in plain Python."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.model import Mismatch, from_json
from triage.numerics.pattern import describe

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def mismatch(harness):
    return harness("mismatch")


def plain_runs(chosen: list[bool]) -> list[list[int]]:
    numbered = [
        [n for n, _ in group] for value, group in itertools.groupby(enumerate(chosen), key=lambda p: p[1]) if value
    ]
    return [[run[0], len(run)] for run in numbered]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=0, max_size=3), st.randoms(use_true_random=False))
def test_places_are_those_of_a_plain_count(mismatch, shape, random) -> None:
    wrong = torch.tensor([random.random() < 0.4 for _ in range(math.prod(shape))]).reshape(shape)
    told, mask = mismatch.summarize(torch.zeros(shape), torch.ones(shape), wrong)
    assert (told["wrong"], told["total"], told["shape"]) == (int(wrong.sum()), math.prod(shape), shape)
    assert mask == bytes(wrong.flatten().int().tolist())
    for axis, extent in enumerate(shape):
        counts = [int(wrong.select(axis, index).sum()) for index in range(extent)]
        line = math.prod(shape) // extent
        runs = plain_runs([count > 0 for count in counts])
        seen = told["axes"][axis]
        assert seen["extent"] == extent
        assert seen["touched"]["first"] == runs[:16] and seen["touched"]["runs"] == len(runs)
        assert seen["touched"]["count"] == sum(count > 0 for count in counts)
        assert seen["dense"]["first"] == plain_runs([2 * count >= line for count in counts])[:16]


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8", "float8_e4m3fn", "bool"]
)
def test_every_type_can_be_looked_at(mismatch, dtype) -> None:
    kind = getattr(torch, dtype)
    expected = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to(kind)
    actual = torch.tensor([[0.0, 1.0], [0.0, 0.0]]).to(kind)
    wrong = mismatch.wrong_elements(actual, expected, 0.0, 0.0, False)
    assert wrong.tolist() == [[False, False], [True, False]]
    told, _ = mismatch.summarize(actual, expected, wrong)
    assert (told["dtype"], told["wrong"], told["zeros"], told["max_abs"]) == (dtype, 1, 1, 1.0)


def test_values_of_wrong_elements(mismatch) -> None:
    expected = torch.arange(1.0, 9.0)
    actual = expected * 2
    actual[0], actual[1], actual[2] = float("nan"), float("inf"), 0.0
    told, _ = mismatch.summarize(actual, expected, mismatch.wrong_elements(actual, expected, 1e-3, 1e-3, False))
    assert (told["nan"], told["inf"], told["zeros"], told["wrong"]) == (1, 1, 1, 8)
    assert told["not_finite_at"] == [0]
    assert told["max_abs"] == 8.0 and told["varied"]
    doubled = expected * -3
    told, _ = mismatch.summarize(doubled, expected, mismatch.wrong_elements(doubled, expected, 1e-3, 1e-3, False))
    assert told["ratio"] == pytest.approx(-3.0) and told["explained"] == 1.0


def test_a_transposed_result_is_told(mismatch) -> None:
    expected = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    actual = expected.T.contiguous()
    told, _ = mismatch.summarize(actual, expected, mismatch.wrong_elements(actual, expected, 1e-3, 1e-3, False))
    assert told["transposed"] == 1.0


def test_the_digest_is_of_the_set_of_wrong_elements(mismatch) -> None:
    def digest(size: int, place: int) -> str:
        wrong = torch.zeros(size, dtype=torch.bool)
        wrong[place] = True
        return mismatch.summarize(torch.zeros(size), torch.ones(size), wrong)[0]["digest"]

    for size in (100, 1 << 17):  # with the mask kept, and without
        assert digest(size, 5) == digest(size, 5) != digest(size, 6)


def test_nothing_is_changed_and_no_random_number_taken(mismatch) -> None:
    actual, expected = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16)
    before, state = actual.detach().clone(), torch.get_rng_state()
    told, _ = mismatch.summarize(
        actual.detach(), expected, mismatch.wrong_elements(actual.detach(), expected, 0.0, 0.0, False)
    )
    assert told["wrong"] == 256
    assert torch.equal(actual.detach(), before) and torch.equal(torch.get_rng_state(), state)


def test_errors_that_are_small_beside_the_largest_are_no_part_of_the_pattern(mismatch) -> None:
    expected = torch.ones(100)
    actual = expected + 1e-3
    actual[90:] += 1.0
    assert mismatch.largely_wrong(actual, expected).nonzero().flatten().tolist() == list(range(90, 100))
    actual[0] = float("nan")
    assert mismatch.largely_wrong(actual, expected)[0]
    same = torch.tensor([1.0, float("nan")])
    assert not mismatch.largely_wrong(same, same.clone()).any()


def test_few_infinite_elements_are_told_with_the_place_of_the_first(mismatch) -> None:
    expected = torch.randn(8, 16)
    actual = expected + 1.0
    actual[2, 5] = actual[7, 3] = float("inf")
    told, _ = mismatch.summarize(actual, expected, mismatch.wrong_elements(actual, expected, 1e-3, 1e-3, False))
    words = describe(from_json(Mismatch, told))
    assert words == "infinite in 2 of 128 elements, the first at [2, 5]; wrong everywhere (128 of 128 elements)"


def test_no_factor_explains_what_is_wrong_where_zero_is_expected(mismatch) -> None:
    expected = torch.relu(torch.randn(16, 16, generator=torch.Generator().manual_seed(0)))
    doubled = torch.where(expected > 0, 2 * expected, 1.0)
    told, _ = mismatch.summarize(doubled, expected, mismatch.wrong_elements(doubled, expected, 1e-3, 1e-3, False))
    assert told["ratio"] == pytest.approx(2.0)
    assert told["explained"] == pytest.approx(float((expected > 0).float().mean()), abs=0.01)
    assert "factor" not in describe(from_json(Mismatch, told))


MENDED = {
    "below the bound": ((0.5, 0.1), (0.009, 0.002), [0.01], True),
    "much better, but not below it": ((0.5, 0.1), (0.02, 0.011), [0.01], False),
    "one measure is enough": ((0.5, 0.1), (0.02, 0.008), [0.01], True),
    "no bound": ((0.5, 0.1), (0.5 / 16, 0.1), [], True),
    "no bound, little better": ((0.5, 0.1), (0.1, 0.1), [], False),
    "a count": ((0.5, 0.1), (0.1, 0.1), [0.0], False),
    "a likeness": ((0.5, 0.1), (0.001, 0.1), [0.99], True),
    "a bound that was kept": ((0.005, 0.1), (0.004, 0.1), [0.2], False),
    "no number any more": ((math.inf, math.inf), (0.1, 0.1), [], True),
}


@pytest.mark.parametrize("case", MENDED)
def test_an_error_is_mended_when_it_comes_below_a_bound_or_nearly_vanishes(mismatch, case: str) -> None:
    before, after, bounds, mended = MENDED[case]
    assert mismatch.mended(before, after, bounds) is mended


def test_measures_are_infinite_where_only_one_side_is_a_number(mismatch) -> None:
    expected = torch.tensor([1.0, 2.0, math.nan, 4.0])
    one = mismatch.measures(torch.tensor([1.0, 2.5, math.nan, 4.0]), expected)
    assert one[:3] == pytest.approx((0.5, 0.125, 0.25)) and one[-1] == pytest.approx(0.25)
    assert mismatch.measures(torch.tensor([1.0, 2.0, 3.0, 4.0]), expected)[0] == math.inf
    assert not any(mismatch.measures(expected, expected))
