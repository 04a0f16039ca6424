"""The oracle on mismatches, on given comparisons: which part tells two of them apart, and wrong elements that move."""

from __future__ import annotations

import dataclasses

import pytest

from triage.experiment.same_fault import Start, differing, moving, outcome, start_of, steady, wrong_set
from triage.knowledge.files import rules_root
from triage.knowledge.load import load_rules
from triage.knowledge.stages import Stages
from triage.model import Axis, Comparison, ErrorRecord, Frame, Mismatch, Output, Runs

RULES, STAGES = load_rules(), Stages.load(rules_root() / "reference" / "stages.toml")
LINE = Frame("/home/user/kernels/k.py", 40, "<module>", "torch.testing.assert_close(c, ref)", user=True)
TORCH = Frame(
    "/home/user/venv/lib/python3.11/site-packages/torch/testing/_comparison.py", 1600, "assert_close", "raise …",
    user=False, raises=True,
)  # fmt: skip


def runs(start: int, length: int) -> Runs:
    return Runs(length, 1, ((start, length),), (start, length))


def wrong(first: int, extent: int = 64, digest: str = "a", **values) -> Mismatch:
    """All rows of a square are wrong from one column on."""
    count = extent - first
    axes = (Axis(extent, runs(0, extent), runs(0, extent)), Axis(extent, runs(first, count), runs(first, count)))
    return Mismatch((extent, extent), "float32", extent * count, extent * extent, axes, digest, **values)


def scattered(count: int, digest: str) -> Mismatch:
    spots = Runs(count, count, tuple((2 * n, 1) for n in range(16)), (60, 1), (1, 9), (1, 3))
    return Mismatch((64, 64), "float32", count, 4096, (Axis(64, spots, Runs(0, 0)),) * 2, digest)


COMPARED = Comparison(
    "torch.testing.assert_close", (64, 64), "float32", "atol=1e-05 rtol=1.3e-06",
    pattern=wrong(48), written=(Output("matmul.main", "C", "r1", "k1"),),
)  # fmt: skip


def fault(**changes) -> Start:
    comparison = dataclasses.replace(COMPARED, **changes)
    found = start_of([error(comparison)], "failed", RULES, STAGES)
    assert found is not None
    return found


def error(comparison: Comparison | None) -> ErrorRecord:
    text = "Tensor-likes are not close!\n\nMismatched elements: 1 / 2"
    return ErrorRecord(
        "exception", "AssertionError", text, (LINE, TORCH), origin="event", comparison=comparison
    )  # fmt: skip


def test_a_mismatch_is_a_kind_of_its_own_without_text_and_operands() -> None:
    start = fault()
    assert (start.key.kind, start.key.rule, start.key.text, start.key.operands) == ("mismatch", "TLC020", "", {})


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, ()),
        ({"shape": (16, 16), "pattern": wrong(8, 16)}, ()),
        ({"pattern": wrong(48, digest="b")}, ()),
        ({"written": (Output("matmul.main", "C", "r7", "k5"),)}, ()),
        ({"written": (Output("other.main", "C", "r1", "k1"),)}, ("comparison.written",)),
        ({"written": (Output("matmul.main", "D", "r1", "k1"),)}, ("comparison.written",)),
        ({"written": ()}, ("comparison.written",)),
        ({"function": "torch.allclose"}, ("comparison.function",)),
        ({"tolerance": "atol=0.1 rtol=0.1"}, ("comparison.tolerance",)),
        ({"dtype": "float16"}, ("comparison.dtype",)),
        ({"vacuous": "itself"}, ("comparison.vacuous",)),
        ({"pattern": wrong(0)}, ("comparison.pattern",)),
        ({"pattern": wrong(48, nan=3)}, ("comparison.pattern",)),
        ({"pattern": wrong(48, zeros=64 * 16)}, ("comparison.pattern",)),
        ({"pattern": scattered(300, "c")}, ("comparison.pattern",)),
    ],
)
def test_each_part_of_a_comparison_counts(changes, parts) -> None:
    assert differing(fault(), fault(**changes)) == parts


def test_an_error_of_the_same_words_without_the_comparison_is_another_fault() -> None:
    found = outcome(fault(), "failed", [error(None)], RULES, STAGES)
    assert found.verdict == "other-fault" and {"kind", "comparison"} <= set(found.differs)
    shapes = dataclasses.replace(COMPARED, pattern=None)
    assert outcome(fault(), "failed", [error(shapes)], RULES, STAGES).verdict == "other-fault"


def test_a_difference_is_told_in_words() -> None:
    found = outcome(
        fault(), "failed", [error(dataclasses.replace(COMPARED, pattern=wrong(48, nan=1024)))], RULES, STAGES
    )
    assert found.why == (
        "comparison.pattern: wrong in the last 16 columns (1024 of 4096 elements) → NaN in the last 16 columns (1024 of 4096 elements)"
    )


def test_elements_that_move_within_one_pattern_are_a_fact_and_no_other_fault() -> None:
    start = fault(pattern=scattered(300, "a"))
    repeats = [fault(pattern=scattered(280, "b")), fault(pattern=scattered(301, "c"))]
    assert steady(start, repeats) is None
    assert wrong_set(start, repeats) == "changes" and wrong_set(start, [start]) == "same"


def test_a_start_that_was_seen_in_several_places_may_be_in_any_of_them() -> None:
    start = fault(pattern=scattered(300, "a"))
    repeats = [fault(pattern=wrong(40, digest="b")), fault(pattern=wrong(48, digest="c"))]
    assert steady(start, repeats) is not None
    moved = moving(start, repeats)
    assert steady(moved, repeats) is None
    assert differing(moved, fault(pattern=wrong(60))) == ()
    assert differing(moved, fault(pattern=wrong(0))) == ("comparison.pattern",)


@pytest.mark.parametrize(
    "repeat",
    [
        {"pattern": wrong(48, nan=1024)},
        {"pattern": wrong(48), "function": "torch.equal"},
        {"pattern": wrong(48), "vacuous": "itself"},
    ],
)
def test_a_start_whose_values_or_comparison_change_is_not_steady(repeat) -> None:
    start = fault(pattern=scattered(300, "a"))
    repeats = [fault(**repeat)]
    unsteady = steady(moving(start, repeats), repeats)
    assert unsteady is not None and unsteady.other == 1


def test_what_is_no_mismatch_has_no_wrong_set() -> None:
    plain = start_of([error(None)], "failed", RULES, STAGES)
    assert plain is not None and wrong_set(plain, [plain]) is None
