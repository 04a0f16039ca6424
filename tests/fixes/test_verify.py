"""Which of several passing changes is called the fix. The runs are given, so nothing is executed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import libcst as cst

from triage.fixes.proposal import Proposal
from triage.fixes.tree import Edit, Sources
from triage.fixes.trial import Fault, Seen
from triage.fixes.verify import MOST, Outcome, fixes_of, verify
from triage.model import Access, BufferInfo, Finding, KernelRecord, State, Statement

TEXT = "value = 0\n"
FAULT = Finding(State.LOCALIZED, None, "a fault", "", rule="TLG014", stage="dsl")
LATER = Finding(State.LOCALIZED, None, "another fault", "", rule="TLG027", stage="layout")
EARLIER = Finding(State.LOCALIZED, None, "an earlier fault", "", rule="TLE014", stage="import")
START = Seen(faults=(Fault(FAULT),), ended="failed", attempted=("main",))


def computes(what: str, unread: bool = False) -> KernelRecord:
    """A kernel of one statement; `unread` leaves a doubt about the buffer `value`."""
    mode = "write" if unread else "readwrite"
    touched = Access("value", ("0",), (1,), (0,), (0,), mode=mode)
    return KernelRecord(
        "main", buffers=(BufferInfo("value", "shared", "float16", (1,)),),
        statements=(Statement("0", "op", text=what, accesses=(touched,)),),
    )  # fmt: skip


def passes(what: str = "right", **more) -> Seen:
    return Seen(ended="succeeded", built=("main",), attempted=("main",), records=(computes(what, **more),))


class Given:
    """Trials whose outcomes are known: by the number that the patched text assigns."""

    def __init__(self, outcomes: Mapping[int, Seen], on_device: Mapping[int, Seen] | None = None) -> None:
        self.outcomes, self.on_device = outcomes, on_device or {}

    def run(self, texts: Mapping[str, str], compile: bool = True) -> Seen:
        number = int(texts["k.py"].split("=")[1])
        return self.on_device.get(number, self.outcomes[number]) if compile else self.outcomes[number]


def decide(outcomes: Mapping[int, Seen], on_device: Mapping[int, Seen] | None = None, **of) -> Outcome:
    """`of` maps `p1`, `p2`… to what the proposal that assigns this number says of itself."""
    sources = Sources({"k.py": TEXT})
    old = sources.files["k.py"].all(cst.Integer)[0]
    proposals = [
        Proposal(f"assign {n}", (Edit("k.py", old, cst.Integer(str(n))),), **of.get(f"p{n}", {})) for n in outcomes
    ]
    return verify(
        proposals, sources, {"k.py": TEXT}, FAULT, START, Given(outcomes, on_device),  # type: ignore[arg-type]
        root="", compile=False, left=lambda: 1.0,
    )  # fmt: skip


def chosen(outcome: Outcome) -> str | None:
    return outcome.chosen.proposal.title if outcome.chosen else None


def test_the_only_one_that_passes_is_the_fix():
    outcome = decide({1: START, 2: passes()})
    assert (chosen(outcome), outcome.count) == ("assign 2", 2)
    (fix,) = fixes_of(outcome, "command")
    assert (fix.verified, fix.level, fix.by) == ("passed", "builds", "command")
    assert fix.patch == "--- k.py\n+++ k.py\n@@ -1 +1 @@\n-value = 0\n+value = 2\n"


def test_two_that_mean_different_things_are_both_shown_and_none_is_the_fix():
    outcome = decide({1: passes("a @ b"), 2: passes("a @ b.T")})
    assert chosen(outcome) is None
    assert [(fix.verified, fix.level) for fix in fixes_of(outcome, "")] == [("not-run", "builds")] * 2
    assert all("do not mean the same" in fix.detail for fix in fixes_of(outcome, ""))


def test_two_that_mean_the_same_are_one():
    assert chosen(decide({1: passes(), 2: passes()})) == "assign 1"


def test_of_different_meanings_the_one_without_doubts_or_the_nearer_name_decides():
    assert chosen(decide({1: passes("wrong", unread=True), 2: passes("right")})) == "assign 2"
    assert chosen(decide({1: passes("far"), 2: passes("near")}, p1={"distance": 2}, p2={"distance": 1})) == "assign 2"
    assert chosen(decide({1: passes("one"), 2: passes("other")}, p1={"distance": 1}, p2={"distance": 1})) is None


def test_a_farther_one_with_fewer_doubts_decides_nothing():
    outcome = decide({1: passes("near", unread=True), 2: passes("far")}, p1={"distance": 0}, p2={"distance": 1})
    assert chosen(outcome) is None


def test_a_passing_change_that_leaves_a_doubt_is_not_verified():
    outcome = decide({1: passes(unread=True)})
    assert chosen(outcome) is None
    assert "nothing reads value" in outcome.why


def test_a_change_that_is_far_from_what_is_written_is_not_excused_from_doubts():
    assert chosen(decide({1: passes(unread=True)}, p1={"distance": 1})) is None
    assert chosen(decide({1: passes(unread=True)}, p1={"distance": 1, "doubts": frozenset()})) == "assign 1"


def test_a_guess_is_never_verified():
    assert chosen(decide({1: passes()}, p1={"guess": "what it said is lost"})) is None


def test_tuning_and_something_else_may_not_differ():
    tuned = {"tuning": True}
    assert chosen(decide({1: passes("tile 64"), 2: passes("other")}, p1=tuned)) is None


def test_a_script_that_builds_less_than_it_tried_before_does_not_pass():
    for less in (
        Seen(ended="succeeded"),
        Seen(ended="succeeded", built=("other",)),
        replace(passes(), compared=(False,)),
    ):
        outcome = decide({1: less})
        assert (chosen(outcome), outcome.passing) == (None, ())


def test_one_that_only_gets_further_says_so():
    further = Seen(faults=(Fault(LATER),), ended="failed", attempted=("main",))
    outcome = decide({1: further, 2: replace(further, faults=(Fault(EARLIER),))})
    (fix,) = fixes_of(outcome, "")
    assert fix.verified == "failed"
    assert "further" in fix.detail and "TLG027" in fix.detail


def test_what_fails_in_the_device_compiler_is_not_verified():
    outcome = decide({1: passes()}, on_device={1: Seen(faults=(Fault(LATER),), ended="failed", attempted=("main",))})
    assert chosen(outcome) is None
    assert "device compiler" in outcome.why


def test_no_more_candidates_are_run_than_allowed():
    assert decide(dict.fromkeys(range(1, MOST + 9), START)).count == MOST


def test_a_run_that_told_nothing_is_no_success_and_leaves_an_alternative_open():
    assert chosen(decide({1: Seen(broken="timed_out")})) is None
    outcome = decide({1: passes(), 2: Seen(broken="timed_out")})
    assert chosen(outcome) is None
    assert "alternatives" in outcome.why


def test_a_confirming_run_that_told_nothing_is_not_said_to_have_failed():
    outcome = decide({1: passes()}, on_device={1: Seen(broken="timed_out")})
    assert chosen(outcome) is None
    assert "did not come to its end" in outcome.why
    assert [fix.verified for fix in fixes_of(outcome, "")] == ["not-run"]


def test_matching_a_reference_that_really_ran_is_said():
    right = Seen(ended="succeeded", built=("main",), attempted=("main",), records=(computes("x"),), compared=(True,))
    assert fixes_of(decide({1: right}), "")[0].level == "matches"
