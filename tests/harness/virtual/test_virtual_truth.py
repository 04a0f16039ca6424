"""What a comparison of made-up values answers, from where it is asked. No torch, no tilelang."""

from __future__ import annotations

import pytest


@pytest.fixture
def made_up(harness):
    """A number that nobody computed, large enough to fail every tolerance."""
    harness("virtual.session").open_(None)
    return harness("virtual.numbers").VirtualFloat(1.0)


PASSING = [
    "assert x < 1e-3",
    "assert not x > 1e-3",
    "assert x > 1e-3",
    "assert x > 0.99, 'not similar'",
    "assert (x < 1e-3) and (x >= 0)",
    "if x > 1e-3:\n    raise ValueError(x)",
    "if not (x < 1e-3):\n    raise ValueError(x)",
    "if x > 0.99:\n    pass\nelse:\n    raise ValueError(x)",
    "if x > 1e-3:\n    import sys\n    sys.exit(1)",
    "def same(a):\n    if a > 1e-3:\n        return False\n    return True\nassert same(x)",
    "def same(a):\n    return a < 1e-3\nassert same(x)",
    "assert abs(x - 3) / 2 < 1e-9",
    "assert all(v < 1e-6 for v in [x, x])",
]


@pytest.mark.parametrize("text", PASSING)
def test_no_condition_on_made_up_values_fails(made_up, script, text):
    script(text, x=made_up)


@pytest.mark.parametrize("text", ["assert x < 1e-3", "if x > 1e-3:\n    raise ValueError(x)"])
def test_a_real_number_fails_as_ever(script, text):
    with pytest.raises((AssertionError, ValueError)):
        script(text, x=1.0)


def test_a_made_up_integer_can_bound_a_loop(made_up, harness, script):
    count = harness("virtual.numbers").VirtualInt(3)
    names = script("i = 0\nwhile i < n:\n    i += 1\nlist_ = [0] * n\nfor _ in range(n):\n    i += 1", n=count)
    assert names["i"] == 6
    assert len(names["list_"]) == 3


def test_arithmetic_stays_made_up_and_exact(made_up):
    kind = type(made_up)
    assert type(made_up * 2 + 1 - 0.5) is kind
    assert float(made_up * 2 + 1 - 0.5) == 2.5
    assert type(-made_up / 4) is kind
    assert f"{made_up:.2f}" == "1.00"
