from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.experiment.oracle import Outcome, Verdict
from triage.experiment.same_fault import (
    Start,
    at_least,
    callee,
    differing,
    outcome,
    rate,
    start_of,
    steady,
)
from triage.knowledge.load import load_rules
from triage.knowledge.stages import Stages
from triage.model import ErrorRecord, FaultKey, Frame

ROOT = Path(__file__).resolve().parents[2] / "rules"
RULES = load_rules(ROOT)
STAGES = Stages.load(ROOT / "reference" / "stages.toml")
PACKAGES = "/home/user/venv/lib/python3.11/site-packages"
MODULE = Frame("/home/user/kernels/k.py", 40, "<module>", "matmul(256, 256, 256)", user=True)
BUILDER = Frame(f"{PACKAGES}/tilelang/language/eager/builder.py", 900, "build", "", user=False)
LINE = Frame("/home/user/kernels/k.py", 30, "main", "T.gemm(A_s, B_s, C_l)", user=True)
GEMM = Frame(f"{PACKAGES}/tilelang/language/gemm_op.py", 120, "_gemm_impl", "assert …", user=False, raises=True)
RAISE = Frame("/home/user/kernels/k.py", 7, "plan", "raise ValueError(text)", user=True, raises=True)
EXIT = Frame("/home/user/kernels/k.py", 50, "<module>", "sys.exit(1)", user=True)


def mismatch(k_a: object = 32, k_b: object = 64, **changes: object) -> ErrorRecord:
    error = ErrorRecord(
        "exception",
        "AssertionError",
        f"T.gemm K shape check failed: K_A = {k_a}, K_B = {k_b}",
        (MODULE, BUILDER, LINE, GEMM),
        phase="build",
        origin="event",
    )
    return dataclasses.replace(error, **changes)  # type: ignore[arg-type]


def seen(*errors: ErrorRecord, status: str = "failed") -> Start | None:
    return start_of(errors, status, RULES, STAGES)


def compared(start: ErrorRecord, *shown: ErrorRecord, status: str = "failed") -> Outcome:
    known = seen(start)
    assert known is not None
    return outcome(known, status, shown, RULES, STAGES)


def test_a_start_holds_rule_operands_raiser_and_callee() -> None:
    start = seen(mismatch())
    assert start is not None
    assert start.key == FaultKey(
        "exception",
        "AssertionError",
        "tilelang/language/gemm_op.py:_gemm_impl",
        rule="TLG014",
        callee="T.gemm",
        operands={"op": "T.gemm", "k_a": 32, "k_b": 64},
    )
    assert [c.text for c in start.invariant] == ["k_a != k_b"]


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ((), "failed"),
        ((mismatch(origin="text"),), "failed"),
        ((mismatch(),), "succeeded"),
        ((mismatch(),), "infra_error"),
        ((mismatch(),), "timed_out"),
        ((mismatch(suspect="the virtual device"),), "failed"),
        ((ErrorRecord("signal", "Killed", "killed: memory", phase="lower", origin="event"),), "failed"),
        ((ErrorRecord("timeout", "Timeout", "no end after 60 s", origin="event"),), "timed_out"),
    ],
)
def test_what_shows_no_fault_is_no_start(errors: tuple[ErrorRecord, ...], status: str) -> None:
    assert start_of(errors, status, RULES, STAGES) is None


@pytest.mark.parametrize(
    ("shown", "differs"),
    [
        (mismatch(0, 0), ("exception", "operands")),
        (mismatch(0, 64), ("operands.k_a",)),
        (mismatch(64, 32), ("k_a != k_b",)),
        (mismatch("k", 64), ("operands.k_a",)),
        (mismatch(type="ValueError"), ("exception",)),
        (mismatch(phase="import"), ("phase",)),
        (mismatch(frames=(MODULE, BUILDER, dataclasses.replace(LINE, text="T.wgmma_gemm(A, B, C)"), GEMM)), ("callee",)),
        (mismatch(frames=(MODULE, dataclasses.replace(MODULE, file="/home/user/kernels/tiles.py"), LINE, GEMM)), ("importing",)),
        (mismatch(message="T.gemm K shape check failed"), ("rule",)),
        (mismatch(kind="signal"), ("kind",)),
    ],
)  # fmt: skip
def test_each_part_of_a_fault_counts(shown: ErrorRecord, differs: tuple[str, ...]) -> None:
    found = compared(mismatch(), shown)
    assert found.verdict is Verdict.OTHER
    if "operands" not in differs:
        assert differs[0] in found.differs
        assert found.why


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_shapes_may_change_while_the_invariant_holds_and_the_larger_stays_the_larger(k_a: int, k_b: int) -> None:
    found = compared(mismatch(), mismatch(k_a, k_b))
    assert (found.verdict is Verdict.SAME) == (k_a < k_b)


@pytest.mark.parametrize(("k_a", "k_b", "same"), [("m", "n", True), ("m", 64, False), ("2 * k", "k", True)])
def test_a_symbol_stays_a_symbol(k_a: object, k_b: object, same: bool) -> None:
    assert (compared(mismatch("k", "n"), mismatch(k_a, k_b)).verdict is Verdict.SAME) == same


def test_a_difference_is_told_with_what_was_seen() -> None:
    wrong = compared(mismatch(), mismatch(0, 64, phase=None))
    assert wrong.why == "phase: build → none; k_a: 32 → 0"


def test_operands_that_no_invariant_reads_must_be_equal() -> None:
    frame = Frame("/project/src/cuda/op/gemm.cc", 257, "tvm::tl::cuda::Partition(int, int)", lang="cxx", user=False)

    def tile(axis: str, divisor: int, extent: int) -> ErrorRecord:
        text = f"Check failed: {axis} must be divisible by {divisor}, but got {extent}"
        return ErrorRecord("exception", "tvm.error.InternalError", text, (MODULE, frame), "lower", origin="event")

    assert compared(tile("M", 16, 100), tile("M", 16, 40)).verdict is Verdict.SAME
    assert compared(tile("M", 16, 100), tile("N", 16, 40)).differs == ("operands.axis",)
    assert compared(tile("M", 16, 100), tile("M", 8, 100)).differs == ("operands.divisor",)


def test_where_no_rule_reads_it_the_text_decides() -> None:
    def one(text: str) -> ErrorRecord:
        return mismatch(message=text)

    assert compared(one("cannot put 12 into 7"), one("cannot put 1 into 0")).verdict is Verdict.SAME
    assert compared(one("cannot put 12 into 7"), one("cannot take 12 from 7")).differs == ("text",)


def test_the_same_words_raised_by_the_script_are_another_fault() -> None:
    assert "raiser" in compared(mismatch(), mismatch(frames=(MODULE, BUILDER, RAISE))).differs
    assert "raiser" in compared(mismatch(), mismatch(frames=())).differs


def test_the_script_s_own_raise_is_known_by_its_statement() -> None:
    own = mismatch(type="ValueError", message="m = 100 is odd", frames=(MODULE, RAISE))
    moved = dataclasses.replace(RAISE, line=2)
    assert compared(own, dataclasses.replace(own, frames=(moved,))).verdict is Verdict.SAME
    otherwise = dataclasses.replace(RAISE, text='raise ValueError(f"m = {m} is odd")')
    assert compared(own, dataclasses.replace(own, frames=(MODULE, otherwise))).differs == ("statement", "line")


def test_an_error_that_is_raised_again_or_passed_on_is_another_fault() -> None:
    wrapped = ErrorRecord(
        "exception", "RuntimeError", "no kernel", (RAISE,), origin="event", causes=(mismatch(relation="cause"),)
    )
    assert compared(mismatch(), wrapped).differs == ("ended",)
    assert compared(wrapped, wrapped).verdict is Verdict.SAME
    assert compared(wrapped, mismatch()).differs == ("ended",)
    exit_ = ErrorRecord("exception", "SystemExit", "1", (EXIT,), origin="event")
    caught = mismatch(handled=True)
    assert compared(mismatch(), caught, exit_).differs == ("ended",)
    start = seen(caught, exit_)
    assert start is not None and start.key.rule == "TLG014"
    assert outcome(start, "failed", (caught, exit_), RULES, STAGES).verdict is Verdict.SAME
    assert outcome(start, "failed", (exit_,), RULES, STAGES).verdict is Verdict.OTHER
    assert outcome(start, "failed", (mismatch(9, 9, handled=True), exit_), RULES, STAGES).verdict is Verdict.OTHER


def test_what_was_caught_before_must_be_of_the_same_kind() -> None:
    """An autotuner whose kernels all fail ends in one and the same error, whatever they failed of."""
    raised = dataclasses.replace(GEMM, file=f"{PACKAGES}/tilelang/autotuner/tuner.py", function="run")
    last = mismatch(
        type="RuntimeError", message="Auto-tuning failed: No configuration compiled", frames=(MODULE, raised)
    )
    wide, narrow = mismatch(handled=True), mismatch(16, 48, handled=True)
    other = mismatch(handled=True, message="T.gemm N shape check failed: N_B = 32, N_C = 64")
    start = seen(wide, narrow, last)
    assert start is not None

    def found(*errors: ErrorRecord) -> Outcome:
        return outcome(start, "failed", errors, RULES, STAGES)

    assert found(narrow, last).verdict is Verdict.SAME
    assert found(other, last).differs == ("caught",)
    assert found(wide, other, last).differs == ("caught",)
    assert found(last).differs == ("caught",)
    recovered = dataclasses.replace(other, recovered=True)
    assert found(recovered, wide, last).verdict is Verdict.SAME


def test_phase_and_pass_come_from_the_same_error_seen_on_its_way() -> None:
    inner = mismatch(handled=True, phase="lower", pass_name="tl.LowerTileOp", message="something")
    start = seen(inner, mismatch(phase=None, message="something"))
    assert start is not None
    assert (start.phase, start.key.pass_name) == ("lower", "tl.LowerTileOp")


@pytest.mark.parametrize("status", ["timed_out", "infra_error"])
def test_a_run_that_did_not_end_shows_nothing(status: str) -> None:
    found = compared(mismatch(), mismatch(), status=status)
    assert (found.verdict, found.why) == (Verdict.UNKNOWN, status)
    assert compared(mismatch(), status="failed").verdict is Verdict.UNKNOWN
    assert compared(mismatch(), mismatch(origin="text")).verdict is Verdict.UNKNOWN
    assert compared(mismatch(), mismatch(), status="succeeded").verdict is Verdict.NONE


def test_a_hang_is_known_by_its_phase_and_kernel() -> None:
    def hang(phase: str | None, kernel: str | None) -> ErrorRecord:
        return ErrorRecord("timeout", "Timeout", "no end", (MODULE,), phase, kernel=kernel, origin="event")

    start = seen(hang("lower", "k1"), status="timed_out")
    assert start is not None

    def verdict(error: ErrorRecord, status: str = "timed_out") -> Verdict:
        return outcome(start, status, [error], RULES, STAGES).verdict

    assert verdict(hang("lower", "k1")) is Verdict.SAME
    assert verdict(hang("lower", "k2")) is Verdict.UNKNOWN
    assert verdict(hang("launch", "k1")) is Verdict.UNKNOWN
    assert verdict(hang(None, None)) is Verdict.UNKNOWN
    assert verdict(mismatch(), "failed") is Verdict.OTHER


def test_a_crash_is_known_by_its_signal_and_phase() -> None:
    def crash(name: str, phase: str) -> ErrorRecord:
        return ErrorRecord("signal", name, f"{name} in phase {phase}", (MODULE,), phase, origin="event")

    assert compared(crash("SIGSEGV", "lower"), crash("SIGSEGV", "lower")).verdict is Verdict.SAME
    assert compared(crash("SIGSEGV", "lower"), crash("SIGABRT", "lower")).differs == ("exception",)
    assert compared(crash("SIGSEGV", "lower"), crash("SIGSEGV", "launch")).differs[-1] == "phase"


def test_values_that_became_nan_are_another_fault() -> None:
    frame = Frame(f"{PACKAGES}/torch/testing/_comparison.py", 1500, "assert_close", "", user=False, raises=True)

    def wrong(difference: str) -> ErrorRecord:
        text = f"Tensor-likes are not close!\n\nMismatched elements: 1 / 8\nGreatest absolute difference: {difference}"
        return mismatch(message=text, frames=(MODULE, frame))

    assert compared(wrong("1.5"), wrong("0.25")).verdict is Verdict.SAME
    assert compared(wrong("1.5"), wrong("nan")).differs == ("nan",)


def at(line: str, *functions: str) -> ErrorRecord:
    """The mismatch in another line of the user's, with other functions on the way to it."""
    way = [dataclasses.replace(MODULE, function=name, text="f()") for name in functions]
    return mismatch(frames=(*way, BUILDER, dataclasses.replace(LINE, line=3, text=line), GEMM))


@pytest.mark.parametrize(
    ("line", "shown", "same"),
    [
        ("T.gemm(A, B, C, policy=1)", "T.gemm(A, B, C)", True),
        ("T.gemm(A, B, C[0:64])  # all", "T.gemm(A,B,C[0:8])", True),
        ("T.gemm(A, B, C)", "T.gemm(A, B, D)", False),
        ("T.gemm(A, B, C)", "T.gemm(A, B, C, policy=1)", False),
        ("T.gemm(", "T.gemm(A, B, C)", True),
        ("T.gemm(A,", "T.gemm(A, B)", True),
        ("T.gemm(A,", "T.gemm(X, B)", False),
    ],
)
def test_the_same_mistake_in_another_line_is_another_fault_unless_names_changed(
    line: str, shown: str, same: bool
) -> None:
    found = compared(at(line, "<module>"), at(shown, "<module>"))
    assert (found.verdict, found.differs) == ((Verdict.SAME, ()) if same else (Verdict.OTHER, ("line",)))
    start = seen(at(line, "<module>"))
    assert start is not None
    assert outcome(start, "failed", [at(shown, "<module>")], RULES, STAGES, renamed=True).verdict is Verdict.SAME


def test_the_same_line_in_another_function_is_another_fault() -> None:
    line = "T.gemm(A, B, C)"
    start = at(line, "<module>", "check", "first")
    assert compared(start, at(line, "<module>", "first")).verdict is Verdict.SAME
    assert compared(start, at(line, "<module>", "check", "second")).differs == ("functions",)


@pytest.mark.parametrize(
    ("text", "columns", "called"),
    [
        ("T.gemm(A, B, C)", None, "T.gemm"),
        ("T.gemm(  # the first half", None, "T.gemm"),
        ("with T.Kernel(T.ceildiv(M, 64)) as bx:", None, "T.Kernel"),
        ("with T.Kernel(T.ceildiv(M, 64)) as bx:", (24, 40), "T.ceildiv"),
        ("print(kernel(a, b).shape)", (7, 19), "kernel"),
        ("@tilelang.jit(out_idx=[3])", None, "tilelang.jit"),
        ("@T.prim_func", None, "T.prim_func"),
        ("if (a + b) and not (c): d = f (x)", None, "f"),
        ("def main(A: T.Tensor((4,), x)):", None, "T.Tensor"),
        ("C[i, j] = A[i]", None, ""),
        ("f(", (1, 9), "f"),
    ],
)
def test_the_callee_is_what_the_user_s_line_calls(text: str, columns: tuple[int, int] | None, called: str) -> None:
    column, end = columns or (None, None)
    frame = dataclasses.replace(LINE, text=text, column=column, end_column=end)
    assert callee((MODULE, frame, GEMM)) == called


@given(st.text(max_size=60), st.integers(1, 60))
def test_any_line_has_a_callee_or_none(text: str, width: int) -> None:
    callee((dataclasses.replace(LINE, text=text, column=1, end_column=1 + width),))


def test_a_start_that_changes_from_run_to_run_is_refused() -> None:
    start = seen(mismatch())
    assert start is not None
    assert steady(start, [start, seen(mismatch())]) is None
    unsteady = steady(start, [start, seen(mismatch(32, 128)), None])
    assert unsteady is not None
    assert (unsteady.runs, unsteady.other, unsteady.differs) == (3, 2, ("fault", "operands.k_b"))
    assert "2 of 3" in unsteady.why and "operands.k_b" in unsteady.why


def test_a_fault_differs_in_nothing_from_itself() -> None:
    start = seen(mismatch())
    assert start is not None
    assert differing(start, start) == ()


def outcomes(same: int, other: int, unknown: int = 0) -> list[Outcome]:
    one = {Verdict.SAME: same, Verdict.NONE: other, Verdict.UNKNOWN: unknown}
    return [Outcome(verdict) for verdict, count in one.items() for _ in range(count)]


@pytest.mark.parametrize(
    ("same", "runs", "low", "high"),
    # the closed forms of Clopper and Pearson at 0 and n, and their tabulated interval of 5 in 10
    [(0, 10, 0.0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1.0), (5, 10, 0.18709, 0.81291), (0, 0, 0.0, 1.0)],
)
def test_the_interval_is_exact(same: int, runs: int, low: float, high: float) -> None:
    found = rate(outcomes(same, runs - same, unknown=2))
    assert (found.same, found.runs) == (same, runs)
    assert found.low == pytest.approx(low, abs=1e-5)
    assert found.high == pytest.approx(high, abs=1e-5)


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_interval_holds_the_rate_and_its_tails_are_those_asked_for(same: int, other: int) -> None:
    found, runs = rate(outcomes(same, other)), same + other
    assert 0 <= found.low <= found.high <= 1
    if runs:
        assert found.low <= same / runs <= found.high
    if same:
        assert math.isclose(at_least(same, runs, found.low), 0.025, rel_tol=1e-6)
    if other:
        assert math.isclose(1 - at_least(same + 1, runs, found.high), 0.025, rel_tol=1e-6)
