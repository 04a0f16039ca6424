"""The chain of wrong values in the shipped graph, with and without a GPU: in which order it asks, and where it stops."""

from __future__ import annotations

import pytest
from test_walker import LAPTOP, TEXT, ran, walk

from triage.graph.load import loads
from triage.graph.walker import FindingView
from triage.model import Fact

GRAPH = loads(TEXT)
TWIN, GPU = "comparison:twin-m1", "comparison:m1"
WRONG_ON_TWIN = (
    Fact("twin.verdict", "mismatched"),
    Fact("twin.failed", 1),
    Fact("comparison.verdict", "mismatched", TWIN),
)
KERNEL = Fact("kernel.failed", False, "kernel:k1")
ON_GPU = (
    KERNEL,
    Fact("run.check", "failed"),
    Fact("comparison.verdict", "mismatched"),
    Fact("comparison.verdict", "mismatched", GPU),
)
RAISED = (*ON_GPU, Fact("run.status", "failed"), Fact("error.text", "AssertionError: not close"))
MADE_UP = (Fact("comparison.verdict", "virtual", GPU),)
SAME = (Fact("comparison.failure_rate", 1.0, GPU), Fact("comparison.wrong_set", "same", GPU))
WITH_GPU = LAPTOP | {"cuda"}


def test_on_the_twin_everything_is_asked_in_order_until_a_statement_is_sought() -> None:
    state = walk(GRAPH, {"observe": MADE_UP, "twin": WRONG_ON_TWIN})
    assert ran(state)[:8] == ["observe", "static", "lower", "twin", "tolerance", "reference", "pattern", "segments"]
    assert "repair" in ran(state)
    assert [s.about for s in state.steps if s.node in ("tolerance", "reference")] == [TWIN, TWIN]


@pytest.mark.parametrize(
    ("node", "fact", "last"),
    [("tolerance", "mismatch.within_model", "tolerance"), ("reference", "reference.suspect", "reference")],
)
def test_on_the_twin_it_stops_where_the_kernel_is_right(node, fact, last) -> None:
    state = walk(GRAPH, {"observe": MADE_UP, "twin": WRONG_ON_TWIN, node: (Fact(fact, True, TWIN),)})
    assert ran(state)[-1] == last


def test_of_several_comparisons_each_goes_its_own_way() -> None:
    both = (*WRONG_ON_TWIN, Fact("comparison.verdict", "mismatched", "comparison:twin-m2"))
    state = walk(GRAPH, {"observe": MADE_UP, "twin": both, "tolerance": (Fact("mismatch.within_model", True, TWIN),)})
    assert [s.about for s in state.steps if s.node == "reference"] == ["comparison:twin-m2"]
    assert "repair" in ran(state)


def test_a_check_of_the_scripts_own_goes_on_to_the_statements() -> None:
    agreed = (Fact("twin.verdict", "mismatched"), Fact("comparison.verdict", "matched", TWIN))
    state = walk(GRAPH, {"observe": MADE_UP, "twin": agreed})
    assert "reference" not in ran(state) and "repair" in ran(state)


def test_an_accumulator_with_a_place_goes_to_its_fix() -> None:
    found = (FindingView("run", "localized", "kernel", "correctness"),)
    answers = {"observe": MADE_UP, "twin": WRONG_ON_TWIN, "tolerance": (Fact("mismatch.within_model", False, TWIN),)}
    state = walk(GRAPH, answers, findings=found, found_at="tolerance")
    assert ran(state)[-2:] == ["tolerance", "fix"]


def test_on_a_gpu_the_rate_comes_first_and_the_twin_after_the_pattern() -> None:
    state = walk(GRAPH, {"observe": ON_GPU, "rate": SAME, "twin": WRONG_ON_TWIN}, WITH_GPU)
    assert ran(state)[:6] == ["observe", "rate", "tolerance", "reference", "pattern", "twin"]
    assert ran(state)[6:9] == ["tolerance", "segments", "repair"]  # the reference was judged on the device
    assert [s.about for s in state.steps if s.node == "tolerance"] == [GPU, TWIN]


def test_on_a_gpu_nothing_further_is_entered_inside_the_model() -> None:
    inside = (Fact("mismatch.within_model", True, GPU),)
    assert ran(walk(GRAPH, {"observe": ON_GPU, "rate": SAME, "tolerance": inside}, WITH_GPU))[-1] == "tolerance"


def test_a_kernel_that_is_right_on_the_twin_goes_to_the_compiler() -> None:
    state = walk(GRAPH, {"observe": ON_GPU, "rate": SAME, "twin": (Fact("twin.verdict", "matched"),)}, WITH_GPU)
    assert ran(state)[5:8] == ["twin", "segments", "switches"]


def test_a_check_that_raised_on_a_gpu_goes_the_same_way() -> None:
    state = walk(GRAPH, {"observe": RAISED, "rate": SAME, "twin": WRONG_ON_TWIN}, WITH_GPU)
    chain = ["observe", "error", "static", "lower", "rate", "tolerance", "reference", "pattern", "twin"]
    assert ran(state)[:9] == chain and "repair" in ran(state)


def test_a_check_that_nothing_names_as_a_comparison_is_still_computed_on_the_twin() -> None:
    state = walk(
        GRAPH, {"observe": (*RAISED[:3], *RAISED[4:]), "twin": (Fact("twin.verdict", "mismatched"),)}, WITH_GPU
    )
    assert "twin" in ran(state) and "repair" in ran(state)


def test_what_agreed_on_the_device_is_not_repaired_for_the_twin() -> None:
    state = walk(GRAPH, {"observe": (KERNEL,), "twin": (Fact("twin.verdict", "disagrees"),)}, WITH_GPU)
    assert "twin" in ran(state) and "repair" not in ran(state)


def test_what_changes_from_run_to_run_is_no_matter_of_tolerance_at_first() -> None:
    changes = (Fact("comparison.failure_rate", 1.0, GPU), Fact("comparison.wrong_set", "changes", GPU))
    state = walk(GRAPH, {"observe": ON_GPU, "rate": changes}, WITH_GPU)
    assert ran(state)[:3] == ["observe", "rate", "host"]
