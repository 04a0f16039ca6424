"""What formats hold of the results of a model: beside the results themselves."""

from __future__ import annotations

import numpy as np
import pytest

from triage.numerics import operations
from triage.numerics.formats import FORMATS
from triage.numerics.ranges import out_of_range, reaches
from triage.numerics.rounding import accumulator_of
from triage.numerics.tolerance import POSITIVE, Dot, dot_model, whole_numbers

HALF, E4M3 = FORMATS["float16"], FORMATS["float8_e4m3"]


@pytest.mark.parametrize(
    "name", [name for name, form in FORMATS.items() if form.exact and name[-2:] in ("t8", "16", "32", "64")]
)
def test_integers_end_where_numpy_says(name: str) -> None:
    info, form = np.iinfo(name), FORMATS[name]
    assert (form.lowest, form.largest) == (float(info.min), pytest.approx(float(info.max)))


@pytest.mark.parametrize(("inputs", "k"), [("int8", 64), ("uint8", 64), ("int4", 1024), ("bool", 256)])
def test_whole_numbers_are_as_large_as_expected(inputs: str, k: int) -> None:
    form = FORMATS[inputs]
    kept = accumulator_of("int32", form)
    model = dot_model(Dot(k, form, kept, FORMATS["int16"], None, whole_numbers(form, 2)))
    drawn = np.random.default_rng(0).integers(int(form.lowest), int(form.largest) + 1, (2, 20000, k))
    sums = (drawn[0] * drawn[1]).sum(-1)
    output = next(one for one in reaches(model, model.r) if one.role == "output")
    assert np.sqrt((sums.astype(float) ** 2).mean()) == pytest.approx(
        output.typical, rel=0.1
    )  # the mean of int4 is not quite zero
    beyond = ((sums > 32767) | (sums < -32768)).mean()
    assert beyond == pytest.approx(output.share, abs=0.02)
    assert abs(sums).max() <= output.most == k * form.magnitude**2


def test_the_share_of_what_saturates_is_that_of_emulated_sums() -> None:
    model = dot_model(Dot(100000, E4M3, accumulator_of("float32", E4M3), E4M3, None))
    sums = np.sqrt(100000) * np.random.default_rng(0).standard_normal(200000)
    (_, output) = reaches(model, model.r)
    assert output.share == pytest.approx((abs(sums) > 448).mean(), abs=0.005)
    assert output.fits == "partly"


def test_what_is_said_is_of_the_size_that_was_given() -> None:
    model = dot_model(Dot(1 << 20, HALF, accumulator_of("float32", HALF), HALF, None, POSITIVE))
    assert "65504" in str(out_of_range(model, model.r))
    assert out_of_range(model, 1.0) is None


def test_the_largest_sum_of_int8_that_surely_fits_int32_has_131071_products() -> None:
    eight, kept = FORMATS["int8"], accumulator_of("int32", FORMATS["int8"])
    found = [
        reaches(model, model.r)[0].fits
        for model in (
            dot_model(Dot(k, eight, kept, FORMATS["int32"], None, whole_numbers(eight, 2))) for k in (131071, 131072)
        )
    ]
    assert found == ["always", "usually"]


def test_a_sum_is_added_up_in_a_format_too() -> None:
    model = operations.sum_model(1 << 20, HALF, FORMATS["float32"], None, same_sign=True)
    assert "float16, in which they are added up, ends at 65504" in str(out_of_range(model, model.r))
