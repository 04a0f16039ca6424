"""From events to kernels and errors: what a run told, also when it ended in the middle."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from triage.experiment.errors import mark_recovered, unfinished, without_echoes
from triage.experiment.kernels import Kernel, kernels_of
from triage.model import ErrorRecord, Frame, Place
from triage.tools.observe import environment_changes

BLOB = "ab" * 32
BEGIN = {"type": "kernel", "id": "k1", "name": "main", "primfunc": {"blob": BLOB}, "target": {"kind": "cuda"}}


def phase(edge: str, name: str, **fields):
    return {"type": f"compile.{edge}", "kernel": "k1", "phase": name, **fields}


def test_a_kernel_is_gathered_from_its_events() -> None:
    events = [
        BEGIN,
        phase("begin", "lower"),
        phase("end", "lower", ok=True, shared_bytes=1024),
        phase("end", "device", ok=None, skipped="nvcc not found"),
    ]
    kernel = kernels_of(events)["k1"]
    assert (kernel.primfunc, kernel.shared_bytes, kernel.failed) == (BLOB, 1024, False)
    assert kernel.phases == {"lower": True, "device": "nvcc not found"}


def test_a_phase_that_did_not_end_is_neither_right_nor_wrong() -> None:
    kernel = kernels_of([BEGIN, phase("begin", "lower")])["k1"]
    assert kernel.phases == {"lower": "unfinished"} and not kernel.failed


def test_where_a_process_died_is_the_last_begin_without_its_end() -> None:
    events = [BEGIN, phase("begin", "lower"), phase("end", "lower"), {"type": "launch.begin", "kernel": "k1"}]
    assert unfinished(events) == ("launch", "k1")
    assert unfinished([*events, {"type": "launch.end", "kernel": "k1"}]) == (None, None)


def test_variables_set_by_the_script_are_known_with_their_last_value() -> None:
    events = [{"type": "env", "set": {"TL_A": "1", "TL_B": "2"}}, {"type": "env", "set": {"TL_A": None}}]
    assert environment_changes(events) == {"TL_A": None, "TL_B": "2"}


AT = Place("/u/k.py", 5)
FAILED = Kernel("k1", "main", defined_at=AT, phases={"lower": False})
BUILT = Kernel("k2", "main", defined_at=AT, phases={"lower": True})
CAUGHT = ErrorRecord("exception", "E", "m", kernel="k1", handled=True)


def test_a_caught_error_is_recovered_by_a_later_success_of_the_same_kernel() -> None:
    assert mark_recovered([CAUGHT], [FAILED, BUILT])[0].recovered
    assert not mark_recovered([CAUGHT], [BUILT, FAILED])[0].recovered
    assert not mark_recovered([CAUGHT], [FAILED, replace(BUILT, name="other")])[0].recovered
    assert not mark_recovered([replace(CAUGHT, handled=False)], [FAILED, BUILT])[0].recovered


def test_an_error_that_crossed_the_compiler_and_came_out_as_another_object_is_one_error() -> None:
    inside = replace(CAUGHT, kernel=None, phase="build")
    ended = ErrorRecord("exception", "E", "m", kernel="k1", phase="lower")
    assert without_echoes([inside, ended]) == [ended]
    final = ErrorRecord("exception", "E", "m")
    (one,) = without_echoes([replace(CAUGHT, phase="lower"), final])
    assert (one.kernel, one.phase, one.handled) == ("k1", "lower", False)


def test_equal_words_of_two_builds_or_two_attempts_stay_two_errors() -> None:
    other = replace(CAUGHT, kernel="k2")
    assert without_echoes([CAUGHT, other]) == [CAUGHT, other]
    attempts = [replace(CAUGHT, kernel=None)] * 2
    assert without_echoes(attempts) == attempts
    assert len(without_echoes([CAUGHT, replace(CAUGHT, message="another")])) == 2


def test_a_caught_error_of_the_dsl_is_recovered_by_the_kernel_of_its_function() -> None:
    frames = (Frame("/u/k.py", 9, "main", user=True),)
    error = ErrorRecord("exception", "E", "m", frames=frames, handled=True)
    assert mark_recovered([error], [BUILT])[0].recovered


@given(st.lists(st.sampled_from([BEGIN, phase("begin", "lower"), phase("end", "lower", ok=False), {"type": "bye"}])))
def test_any_order_of_events_is_read(events) -> None:
    kernels = kernels_of(events)
    assert set(kernels) <= {"k1"}
    unfinished(events)
