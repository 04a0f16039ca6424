from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_samples import ROOT

from triage.knowledge.symptoms import FILE, Symptoms
from triage.model import Category

SYMPTOMS = Symptoms.load(ROOT)


def categories(text: str) -> list[str]:
    return [str(symptom.category) for symptom in SYMPTOMS.of(text)]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("wrong results when num_stages=3", "correctness"),
        ("The output differs from torch in the last tile", "correctness"),
        ("dQ is all NaN, dK is fine", "correctness"),
        ("Half of the rows are never written", "correctness"),
        ("The sum does not match the reference", "correctness"),
        ("2x slower than 0.1.8", "performance"),
        ("I only get 40 TFLOPS and cannot reach the numbers of the README", "performance"),
        ("Throughput dropped by a third after the upgrade", "performance"),
        ("fails about one time in ten", "intermittent"),
        ("Results differ from run to run", "intermittent"),
        ("The test is flaky: wrong values sometimes", "intermittent"),
        ("hangs forever", "intermittent"),
        ("The process does not exit", "intermittent"),
        ("pip install fails", "environment"),
        ("import tilelang kills the interpreter", "environment"),
        ("No driver is found inside the container", "environment"),
        ("The kernel fails to compile for fp8", "generation"),
        ("The compiler hangs with dynamic shapes", "generation"),
        ("Calling the kernel raises an exception", "generation"),
        ("The kernel compiles and leaves out the tail of K", "correctness"),
        ("It fails to vectorize, is accepted without any warning, and returns 3 instead of 5", "correctness"),
        ("Even rows and odd rows change places", "correctness"),
        ("Every third element keeps its old value", "correctness"),
        ("max_err=0.37", "correctness"),
        ("The generated code lacks a __syncthreads between store and load", "intermittent"),
        ("One warp reads the tile before the others have written it", "intermittent"),
        ("The launch gives no error and the process hangs", "intermittent"),
        ("The nightly job stalls and is killed after 600 s", "intermittent"),
        ("The scheduler's watchdog fired after 300 s", "intermittent"),
        ("40 runs, 33 fail, a failure rate of 82 %", "intermittent"),
        ("The layer falls back to the eager implementation", "performance"),
        ("relative=0.31 > rtol=0.02", "correctness"),
        ("We lose 30 % against cuBLAS", "performance"),
        ("The CANN headers do not match the installed compiler", "environment"),
    ],
)
def test_the_words_of_a_report_hint_at_one_category(text: str, category: str) -> None:
    assert categories(text) == [category]


@pytest.mark.parametrize(
    "text",
    [
        "no wrong results", "it is not slow", "never hangs, not slow, and without wrong values", "nothing is wrong", "", "hello",
        "the results are not wrong", "After the fix it is no longer twice as slow", "It no longer hangs",
    ],
)  # fmt: skip
def test_what_is_denied_or_not_said_hints_at_nothing(text: str) -> None:
    assert categories(text) == []


def test_a_denial_reaches_no_further_than_its_clause() -> None:
    assert categories("It is not slow, but the values are wrong") == ["correctness"]
    assert categories("not only wrong values") == ["correctness"]
    assert categories("The kernel no longer compiles") == ["generation"]


def test_words_that_say_several_things_give_several_candidates() -> None:
    assert set(categories("It is slow and gives wrong results")) == {"correctness", "performance"}


def test_that_results_change_from_run_to_run_accounts_for_that_they_are_wrong() -> None:
    (symptom,) = SYMPTOMS.of("wrong results, different in every run")
    assert symptom.category is Category.INTERMITTENT and symptom.phrases == ("different in every run",)
    assert symptom.next


def test_what_is_only_hinted_at_is_no_candidate_beside_what_is_said_plainly() -> None:
    assert categories("atomic_add and AtomicAddx2 do not compile") == ["generation"]


def test_a_longer_phrase_takes_the_words_of_a_shorter_one_of_another_category() -> None:
    (symptom,) = SYMPTOMS.of("the header does not match the installed toolkit")
    assert symptom.category is Category.ENVIRONMENT


def test_what_loggers_say_by_the_way_is_no_report() -> None:
    log = "[W1205 10:06:25 dep.ts:164] Warning: Device do not support double, cast fails\n"
    assert categories(log + "all zeros") == ["correctness"]
    assert categories("2026-06-01 18:27:34 [jit:INFO]: begins to compile\nhangs") == ["intermittent"]
    assert categories("WARNING: the kernel is slow") == ["performance"]


@given(st.text(max_size=300))
def test_any_text_can_be_asked(text: str) -> None:
    for symptom in SYMPTOMS.of(text):
        assert symptom.phrases and symptom.score > 0


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ('category = "generation"\nsays = "a"\nphrases = ["x"]', "next"),
        ('category = "generation"\nsays = "a"\nnext = "b"\nphrases = ["x"]\nweek = []', "week"),
        ('category = "slow"\nsays = "a"\nnext = "b"\nphrases = ["x"]', "slow"),
        ('category = "generation"\nsays = "a"\nnext = "b"\nphrases = "x"', "lists"),
    ],
)
def test_an_entry_that_is_none_is_refused(entry: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / FILE).write_text(f"[[symptom]]\n{entry}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=what):
        Symptoms.load(tmp_path)
