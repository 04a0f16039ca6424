from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_samples import RULE, library_frame, one_rule, tile_error, user_frame

from triage.knowledge.match import (
    Outcome,
    Record,
    record_of_error,
    record_of_hazard,
    record_of_kernel,
    record_of_warning,
    records_of_error,
    records_of_output_line,
    try_rule,
    typed,
)
from triage.knowledge.rule import Rule
from triage.model import Frame, KernelRecord, Launch, WarningRecord


@pytest.fixture(scope="module")
def rule(tmp_path_factory: pytest.TempPathFactory) -> Rule:
    return one_rule(tmp_path_factory.mktemp("rules"))


def outcome(rule: Rule, *frames: Frame) -> Outcome:
    return try_rule(rule, record_of_error(tile_error(*frames)), {}).outcome


def test_the_raising_frame_decides(rule: Rule) -> None:
    assert outcome(rule, user_frame(), library_frame()) is Outcome.MATCH
    assert outcome(rule, user_frame(), library_frame("/x/site-packages/torch/tile.py")) is Outcome.MISS
    assert outcome(rule, user_frame(), library_frame("/x/site-packages/nottilelang/tile.py")) is Outcome.MISS
    assert outcome(rule) is Outcome.UNOBSERVED


def test_the_users_own_raise_is_no_match_wherever_the_file_lies(rule: Rule) -> None:
    assert outcome(rule, user_frame(text='raise ValueError("tile of A_s …")')) is Outcome.MISS
    own = user_frame(text="assert ok, 'tile of A_s …'", file="/home/user/tilelang/tile.py")
    assert outcome(rule, library_frame(), own) is Outcome.MISS


def test_the_raising_frame_is_sought_behind_the_frames_that_only_throw(rule: Rule) -> None:
    carrier = Frame("<unknown>", 0, "tvm::runtime::detail::LogFatal::~LogFatal()", lang="cxx", user=False)
    assert outcome(rule, user_frame(), library_frame(), carrier) is Outcome.MATCH
    assert outcome(rule, user_frame(), carrier) is Outcome.MISS


def test_a_raising_frame_without_a_file_is_not_seen(rule: Rule) -> None:
    nowhere = Frame("<unknown>", 0, "tvm::tl::Inner(int)", lang="cxx", user=False)
    assert outcome(rule, user_frame(), nowhere) is Outcome.UNOBSERVED
    assert outcome(rule, user_frame(), Frame("<string>", 1, "<module>", user=None)) is Outcome.MISS, "exec of a text"
    scoped = replace(rule, match=replace(rule.match, raised_in=("tvm::tl::Inner",)))
    assert outcome(scoped, user_frame(), nowhere) is Outcome.MATCH
    assert outcome(scoped, user_frame(), replace(nowhere, function="tvm::tl::Outer(int)")) is Outcome.MISS


def test_a_raiser_may_be_one_function_of_a_file(rule: Rule) -> None:
    def of(function: str) -> Rule:
        return replace(rule, match=replace(rule.match, raised_in=(f"tilelang/tile.py:{function}",)))

    assert outcome(of("make_tile"), user_frame(), library_frame()) is Outcome.MATCH
    assert outcome(of("make"), user_frame(), library_frame()) is Outcome.MISS
    method = replace(library_frame(), function="Maker.make_tile")
    assert outcome(of("make_tile"), user_frame(), method) is Outcome.MATCH
    assert outcome(of("make_tile")) is Outcome.MISS, "without a frame nothing tells it from its neighbour"


def test_user_means_python_raised_in_the_users_line(rule: Rule) -> None:
    by_python = replace(rule, match=replace(rule.match, raised_in=("user",)))
    assert outcome(by_python, user_frame()) is Outcome.MATCH
    assert outcome(by_python, user_frame(text="raise ValueError(x)")) is Outcome.MISS
    assert outcome(by_python, user_frame(), library_frame()) is Outcome.MISS
    assert outcome(by_python, replace(user_frame(), user=None)) is Outcome.UNOBSERVED


def test_an_exception_rule_that_names_no_raiser_is_never_sure(rule: Rule) -> None:
    anywhere = replace(rule, match=replace(rule.match, raised_in=()))
    assert outcome(anywhere, user_frame(), library_frame()) is Outcome.UNOBSERVED


def test_captures_are_typed_and_fields_and_facts_answer_conditions(tmp_path: Path) -> None:
    text = RULE.replace(
        "raised_in", 'when = ["width > most", "error.type == ValueError", "kernel.arch == sm_90a"]\nraised_in'
    )
    rule = one_rule(tmp_path, text)
    record = record_of_error(tile_error(user_frame(), library_frame()))
    assert try_rule(rule, record, {"kernel.arch": "sm_90a"}).captures == {"name": "A_s", "width": 96, "most": 64}
    assert not try_rule(rule, record, {"kernel.arch": "sm_80"}).matched
    assert "kernel.arch is absent" in try_rule(rule, record, {}).why
    small = tile_error(user_frame(), library_frame(), message="tile of A_s is 32 wide, at most 64")
    assert "width = 32" in try_rule(rule, record_of_error(small), {"kernel.arch": "sm_90a"}).why


def test_a_text_which_the_rule_is_slow_on_is_no_match_and_says_so(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.knowledge.match.SEARCH_TIMEOUT", 0.05)
    slow = replace(rule, match=replace(rule.match, text=r"(a+)+(b+)+(c|a+)+\d", raised_in=()))
    trial = try_rule(slow, Record("error", text="a" * 5000 + "!"), {})
    assert trial.outcome is Outcome.TIMED_OUT and not trial.matched


def test_both_ends_of_a_huge_text_are_searched(rule: Rule) -> None:
    line = "tile of A_s is 96 wide, at most 64"
    for message in (line + "\n" + "x" * 10**6, "x" * 10**6 + "\n" + line):
        error = tile_error(user_frame(), library_frame(), message=message)
        assert try_rule(rule, record_of_error(error), {}).matched


def test_a_chain_starts_with_what_decides_and_doubts_mere_context() -> None:
    inner = replace(tile_error(library_frame(), message="inner"), relation="context")
    outer = replace(tile_error(user_frame(), message="outer"), causes=(inner,), kernel="k2")
    first, second = records_of_error(outer)
    assert (first.error, second.error, second.certain) == (outer, inner, False)
    assert first.about == second.about == "kernel:k2" and second.outer == outer
    assert [r.error for r in records_of_error(outer, decides=inner)] == [inner, outer]


def test_records_of_other_things() -> None:
    warning = record_of_warning(WarningRecord("race", kernel="k1"))
    assert (warning.on, warning.text, warning.about, warning.certain) == ("warning", "race", "kernel:k1", False)
    kernel = record_of_kernel(KernelRecord("main", launch=Launch(grid=(8, "n"), threads=(128, 2)), shared_bytes=1024))
    assert kernel.fields["kernel.threads"] == 256 and kernel.fields["kernel.grid_x"] == 8
    assert "kernel.grid_y" not in kernel.fields, "a symbolic extent is unknown, not a number"
    nested = {"kind": "over", "at": {"file": "k.py", "line": 4}, "fields": {"bytes": 9}, "certainty": "likely"}
    hazard = record_of_hazard(nested)
    assert hazard.fields == {"hazard.kind": "over", "hazard.bytes": 9} and hazard.at and hazard.at.line == 4
    assert not hazard.certain and record_of_hazard({"kind": "over", "bytes": 9}).fields == hazard.fields
    assert records_of_output_line("  \n") == [] and records_of_output_line("x")[0].on == "log"


@given(st.integers(-(10**17), 10**17))
def test_an_integer_is_captured_as_one(number: int) -> None:
    assert typed(f" {number} ") == number and isinstance(typed(str(number)), int)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_captured_as_one(number: float) -> None:
    assert typed(repr(number)) == number


@given(st.text())
def test_what_is_no_number_stays_text(text: str) -> None:
    value = typed(text)
    assert not isinstance(value, bool) and (isinstance(value, (int, float)) or value == text.strip())


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)


@given(names, st.integers(0, 10**6), st.integers(0, 10**6), st.text(max_size=40), st.text(max_size=40))
def test_the_core_is_found_among_any_text(
    rule: Rule, name: str, width: int, most: int, before: str, after: str
) -> None:
    message = f"{before}\ntile of {name} is {width} wide, at most {most}\n{after}"
    captures = try_rule(rule, record_of_error(tile_error(user_frame(), library_frame(), message=message)), {}).captures
    assert captures["width"] == width or "tile of" in before


@given(st.text(max_size=200), st.text(max_size=60), st.text(max_size=20))
def test_any_record_is_tried_without_an_error(rule: Rule, message: str, file: str, function: str) -> None:
    frame = Frame(file, 0, function, message, user=None)
    trial = try_rule(rule, record_of_error(tile_error(frame, message=message)), {})
    assert trial.outcome in set(Outcome)


def test_a_condition_of_unless_rules_a_match_out_only_where_it_is_known_to_hold() -> None:
    from triage.knowledge.load import load_rules
    from triage.model import ErrorRecord, Frame

    rule = load_rules().get("TLE002")
    assert rule is not None
    frame = Frame("/v/site-packages/torch/cuda/__init__.py", 5, "_lazy_init", user=False)
    error = ErrorRecord("exception", "AssertionError", "Torch not compiled with CUDA enabled", frames=(frame,))
    record = record_of_error(error)
    assert try_rule(rule, record, {}).matched
    assert try_rule(rule, record, {"run.mode": "real"}).matched
    assert not try_rule(rule, record, {"run.mode": "virtual"}).matched
