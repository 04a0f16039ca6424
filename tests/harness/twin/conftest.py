"""Running kernels on the twin, from arrays to arrays."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tilelang")


@pytest.fixture(scope="session")
def twin(harness):
    return harness("twin")


@pytest.fixture(scope="session")
def compute(twin):
    """`compute(func, a, b, out=(shape, dtype))` runs a kernel whose last parameter is an output that nobody wrote.

    Answers the output and the happenings.
    """

    def run(func, *inputs, out, **options):
        result = twin.poison(np.empty(*out))
        outcome = twin.run(func, [*inputs, result], fresh=[len(inputs)], **options)
        return result, outcome.happenings

    return run


@pytest.fixture
def random():
    return np.random.default_rng(7)


def of_kind(happenings, kind):
    return [h for h in happenings if h.kind == kind]
