"""Stages against the writes of a block, as sequences."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

NAMES = st.sampled_from("abc")
WRITES = st.lists(st.tuples(NAMES, st.integers(0, 3)), max_size=12)


@given(WRITES, st.data())
def test_stages_that_are_some_of_the_writes_are_met_in_their_order(harness_stages, writes, data) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, max(len(writes) - 1, 0)), max_size=len(writes))))
    made = [harness_stages.Write(name, None, (), numpy.array(value)) for name, value in writes]
    stages = [writes[n] for n in chosen if n < len(writes)]
    found = harness_stages.met(made, stages, lambda write, expected: int(write.values) == expected)
    assert len(found) == len(stages) and found == sorted(set(found))
    assert all(writes[at] == stage for at, stage in zip(found, stages, strict=True))
    assert all(at <= n for at, n in zip(found, chosen, strict=False))  # never later than needed


@given(WRITES, st.lists(st.tuples(NAMES, st.integers(0, 4)), min_size=1, max_size=6))
def test_a_stage_that_is_not_met_has_no_such_write_behind_the_last_match(harness_stages, writes, stages) -> None:
    made = [harness_stages.Write(name, None, (n // 3,), numpy.array(value)) for n, (name, value) in enumerate(writes)]
    found = harness_stages.met(made, stages, lambda write, expected: int(write.values) == expected)
    if len(found) == len(stages):
        return
    start = found[-1] + 1 if found else 0
    assert stages[len(found)] not in writes[start:]
    left = harness_stages.suspects(made, stages[len(found) :], start)
    assert {write.buffer for write in left} <= {stages[len(found)][0]}
    assert len({write.iteration for write in left}) <= 1
    assert bool(left) == any(name == stages[len(found)][0] for name, _ in writes[start:])


@pytest.fixture(scope="module")
def harness_stages():  # type: ignore[no-untyped-def]
    from triage.harness import stages

    return stages
