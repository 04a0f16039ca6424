"""Differences judged by spacings: what is more than rounding, whatever the type."""

from __future__ import annotations

import pytest

from triage.model import Differences
from triage.numerics.steps import beyond_rounding


@pytest.mark.parametrize(
    ("found", "gross"),
    [
        (Differences(max_error=0.5, rms_expected=1.0), True),
        (Differences(max_error=0.05, rms_expected=1.0), False),
        (Differences(max_error=0.05, rms_expected=0.01), True),
        (Differences(max_error=0.0, rms_expected=1.0, nonfinite=3), True),
        (Differences(), False),
    ],
)
def test_what_no_rounding_of_any_type_does(found: Differences, gross: bool) -> None:
    assert beyond_rounding(found) is gross
