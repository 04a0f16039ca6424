"""Which settings a kernel has, the search over them, and what two compiles say of a pass: without a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.experiment.bisect import find
from triage.experiment.blame import blamed, first_difference
from triage.experiment.choose import Unit
from triage.experiment.minimal import OutOfBudget
from triage.experiment.oracle import Verdict
from triage.experiment.switches import Setting, applied, of_tiles_only, settings, together
from triage.experiment.template import Change, Program, Result
from triage.knowledge.files import rules_root
from triage.knowledge.switches import Effect, Switch, load_switches

TABLE = load_switches(rules_root() / "reference" / "switches.toml")
HOPPER = Program(Path("f.json"), {"kind": "cuda", "arch": "sm_90a"})
LAUNCH = Unit("threads:0", "threads", value=(128, 1, 1))
LOOP = Unit("note:0.1:num_stages", "loop-annotation", key="num_stages", value=3, loop={"var": "k", "kind": "serial"})
COPY = Unit("drop:0.1.0", "statement", op="tl.tileop.copy")


def named(found: list[Setting], name: str) -> list[Setting]:
    return [setting for setting in found if setting.switch.name == name]


def test_a_kernel_has_the_switches_of_its_target_and_of_its_units() -> None:
    found = settings(TABLE, [LAUNCH, LOOP, COPY], HOPPER)
    assert [s.text for s in named(found, "num_stages")] == ["num_stages of the loop over k 3 → 0"]
    assert named(found, "tl.disable_warp_specialized") and not named(found, "tl.disable_vectorize_256")
    assert not named(found, "annotated layout")
    ampere = settings(TABLE, [LAUNCH], Program(Path("f.json"), {"kind": "cuda", "arch": "sm_80"}))
    assert not named(ampere, "tl.disable_warp_specialized")
    assert not named(settings(TABLE, [LAUNCH], Program(Path("f.json"), "c")), "tl.disable_thread_storage_sync")


def test_the_harmless_come_first_and_of_one_thing_the_nearest() -> None:
    found = settings(TABLE, [LAUNCH, LOOP, COPY], HOPPER)
    order = [list(Effect).index(setting.effect) for setting in found]
    assert order == sorted(order)
    assert [s.now for s in named(found, "threads")][:4] == ["96", "160", "64", "192"]
    assert next(s.now for s in named(found, "architecture")) == "sm_90"  # the same device without its own features


def test_what_the_script_sets_itself_is_taken_away() -> None:
    program = Program(Path("f.json"), HOPPER.target, {"tirx.disable_vectorize": True, "my.key": 1})
    found = settings(TABLE, [], program)
    (own,) = named(found, "tirx.disable_vectorize")
    assert (own.was, own.now, own.effect) == ("True", "unset", Effect.PRESERVES)
    (unknown,) = named(found, "my.key")
    assert unknown.effect == Effect.CHANGES  # nothing is known of it
    changed, changes = applied(program, [own])
    assert dict(changed.pass_configs) == {"my.key": 1} and changes == ()


def test_settings_become_changes_configs_and_a_target() -> None:
    found = settings(TABLE, [LAUNCH, LOOP], HOPPER)
    chosen = [named(found, name)[0] for name in ("num_stages", "tl.disable_wgmma", "architecture", "threads")]
    program, changes = applied(HOPPER, chosen)
    assert program.pass_configs == {"tl.disable_wgmma": True}
    assert program.target == {"kind": "cuda", "arch": "sm_90"}
    assert changes == (Change("note:0.1:num_stages", 0), Change("threads:0", (96, 1, 1)))


@pytest.mark.parametrize(
    "unit",
    [
        Unit("threads:0", "threads", value=(128, 1, 1), reads=("tx",)),
        Unit("unwrap:0.1", "attribute-around", key="warp_specialize"),
        Unit("drop:0.2", "statement", op="tl.mbarrier_wait_parity"),
    ],
)
def test_a_kernel_that_counts_threads_itself_may_compute_something_else_with_others(unit: Unit) -> None:
    assert of_tiles_only([LAUNCH, COPY])
    assert not of_tiles_only([LAUNCH, COPY, unit])
    launch = unit if unit.kind == "threads" else LAUNCH
    found = settings(TABLE, [launch, *([unit] if unit is not launch else [])], HOPPER)
    assert {setting.effect for setting in named(found, "threads")} == {Effect.CHANGES}


# ------------------------------------------------------------------------------------------------------------- search


def setting(name: str, slot: str = "", effect: Effect = Effect.PRESERVES) -> Setting:
    return Setting(Switch(name, "pass-config", effect, ""), slot or name, name, "unset", "True", effect)


NAMES = "abcdefg"


@given(st.lists(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3), min_size=1, max_size=3))
def test_every_set_found_works_and_without_any_one_of_it_does_not(needed: list[set[str]]) -> None:
    options = [setting(name) for name in NAMES]

    def trial(chosen) -> Verdict:
        have = {one.what for one in chosen}
        return Verdict.NONE if any(one <= have for one in needed) else Verdict.SAME

    found, complete = find(options, trial)
    assert complete and found
    for chosen in found:
        assert trial(chosen) == Verdict.NONE
        assert all(trial([s for s in chosen if s is not left]) != Verdict.NONE for left in chosen) or len(chosen) == 1
    if any(len(one) == 1 for one in needed):
        assert {s.what for (s,) in found} == {name for one in needed if len(one) == 1 for name in one}


def test_another_fault_is_never_taken_for_success() -> None:
    found, complete = find([setting("a"), setting("b")], lambda chosen: Verdict.OTHER)
    assert (found, complete) == ([], True)


def test_a_second_fault_that_only_shows_without_the_first_is_taken_away_too() -> None:
    def trial(chosen) -> Verdict:
        have = {one.what for one in chosen}
        if "poison" in have and len(have) > 1:
            return Verdict.OTHER
        return (
            Verdict.NONE if {"a", "c"} <= have else Verdict.OTHER if "a" in have or "poison" in have else Verdict.SAME
        )

    found, _ = find([setting(name) for name in ("poison", "a", "b", "c")], trial)
    assert [{s.what for s in chosen} for chosen in found] == [{"a", "c"}]


def test_of_the_values_of_one_thing_the_first_that_works_is_taken() -> None:
    asked = []

    def trial(chosen) -> Verdict:
        asked.append(chosen[0].what)
        return Verdict.NONE if chosen[0].what in ("64", "32") else Verdict.SAME

    found, _ = find([setting(n, "threads") for n in ("96", "64", "32")], trial)
    assert [s.what for (s,) in found] == ["64"] and asked == ["96", "64"]
    assert len(together([setting("96", "threads"), setting("64", "threads"), setting("x")])) == 2


def test_what_was_found_before_the_time_ran_out_is_kept() -> None:
    asked = []

    def trial(chosen) -> Verdict:
        if asked:
            raise OutOfBudget
        asked.append(chosen)
        return Verdict.NONE

    found, complete = find([setting("a"), setting("b")], trial)
    assert ([s.what for (s,) in found], complete) == (["a"], False)


# -------------------------------------------------------------------------------------------------------------- blame


def result(trace: str, fails: str | None = None, phase: str = "lower") -> Result:
    """A compile by its passes, as `A1 B2`: the letter is the pass, the digit what the program is after it."""
    steps = [[f"tl.{step[0]}", step[1:]] for step in trace.split()]
    failed = f"tl.{fails}" if fails else None
    return Result("id", "failed" if fails else "succeeded", None, failed, {"trace": steps, "phase": phase})


def switch(*passes: str, change: Change | None = None) -> tuple[Setting, ...]:
    row = Switch("s", "pass-config", Effect.PRESERVES, "", tuple(f"tl.{name}" for name in passes))
    return (Setting(row, "s", "s", "unset", "True", Effect.PRESERVES, change),)


def test_a_pass_that_is_not_run_any_more_is_named() -> None:
    said = blamed(result("A1 B2", fails="C"), result("A1 B2 D3"), switch("C"))
    assert said is not None and "the pass that fails, tl.C, is not run" in said


def test_a_pass_that_takes_its_switch_for_the_same_program_is_named() -> None:
    said = blamed(result("A1 B2", fails="C"), result("A1 B2 C5 D3"), switch("C"))
    assert said is not None and "on the same program" in said


def test_the_first_difference_before_the_fault_is_no_blame_for_the_pass_that_fails() -> None:
    said = blamed(result("A1 B2", fails="C"), result("A1 B4 C5"), switch("B"))
    assert said is not None and "tl.B makes another program" in said and "tl.C, comes later" in said


def test_a_switch_that_leaves_the_program_before_the_fault_as_it_was_is_no_evidence() -> None:
    assert blamed(result("A1 B2", fails="C"), result("A1 B2 C5"), switch("B")) is None
    assert blamed(result("A1 B2", None, "codegen"), result("A1 B2"), switch("B")) is None


def test_a_pass_of_the_same_name_that_ran_before_is_not_the_one_that_fails() -> None:
    said = blamed(result("S1 B2", fails="S"), result("S1 B2 S3"), switch("S"))
    assert said is not None and "is not run" not in said
    said = blamed(result("S1 B2", fails="S"), result("S1 B2 D3"), switch("S"))
    assert said is not None and "is not run" in said


def test_a_pass_written_in_python_is_known_by_its_turn() -> None:
    start = Result("id", "failed", None, "nested_loop_checker", {"trace": [["pass_fn", "1"]], "phase": "lower"})
    turns = [["pass_fn", "1"], ["pass_fn", "1"], ["tl.A", "2"]]
    cured = Result("id", "succeeded", None, None, {"trace": turns, "phase": "lower"})
    said = blamed(start, cured, switch("tl.A", change=Change("serial:0.1")))
    assert said == "which pass is at fault is not shown by that"


def test_a_changed_program_says_nothing_about_the_pass() -> None:
    said = blamed(result("A1 B2", fails="C"), result("A7 B8 C9"), switch("X", change=Change("threads:0", (64, 1, 1))))
    assert said == "which pass is at fault is not shown by that"


def test_passes_that_change_nothing_make_no_difference() -> None:
    before = [("A", "1"), ("W", "1"), ("B", "2"), ("C", "3")]
    assert first_difference(before, [("A", "1"), ("B", "2"), ("C", "4")]) == "C makes another program"
    assert first_difference(before, [("A", "1"), ("I", "1"), ("B", "2"), ("C", "3")]) is None
    assert first_difference([("A", "1"), ("W", "5"), ("B", "6")], [("A", "1"), ("B", "2")]) == "W is not run"
    assert first_difference([("A", "1"), ("B", "2")], [("A", "1"), ("I", "5"), ("B", "2")]) == "I is run"
