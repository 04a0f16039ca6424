from __future__ import annotations

import dataclasses
import time

import pytest
from captured import KERNELS, marked_lines, read_source

from triage.experiment.localize import localize
from triage.model import Confidence, FoundBy

pytestmark = pytest.mark.tilelang

#: one of each kind: a statement, one inside a region, a setting, a set of statements; the slow test runs them all
QUICK = ["macro_odd_tile", "copy_in_warp_group", "warps_do_not_cover", "class_two_reductions", "unknown_dtype"]


def found_in(name: str, template, captured, **options):
    kernel = captured(name)[-1]
    given = {"deadline": time.monotonic() + 300, "fault": kernel.error, "read_source": read_source} | options
    return localize(kernel.program, template, **given)


def check_line(name: str, template, captured) -> None:
    found = found_in(name, template, captured)
    assert found.location is not None, found.how
    assert [found.location.line] == marked_lines(KERNELS / f"{name}.py"), found
    assert found.location.file == str(KERNELS / f"{name}.py")
    assert found.location.snippet.endswith("# BUG")
    assert found.location.found_by == FoundBy.EXPERIMENT
    assert found.confidence in (Confidence.CONFIRMED, Confidence.LIKELY)
    assert found.minimal


@pytest.mark.parametrize("name", QUICK)
def test_the_line_is_found(name, template, captured) -> None:
    check_line(name, template, captured)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({path.stem for path in KERNELS.glob("*.py")} - set(QUICK)))
def test_the_line_is_found_in_every_kernel(name, template, captured) -> None:
    check_line(name, template, captured)


def test_thread_counts_that_lower_are_told(template, captured) -> None:
    found = found_in("warps_do_not_cover", template, captured)
    assert found.facts["passing.threads"] == [32, 64, 128, 256, 512]
    assert [label.line for label in found.labels] == [19]  # the operator that raised


def test_the_statements_of_a_conflict_are_labelled(template, captured) -> None:
    found = found_in("class_two_reductions", template, captured)
    assert {label.line for label in found.labels} >= {19, 20}


def test_a_good_kernel_has_no_place(template, captured) -> None:
    good = captured("second_of_two")[0]
    found = localize(good.program, template, deadline=time.monotonic() + 60, read_source=read_source)
    assert (found.location, found.confidence) == (None, None)
    assert "lowers" in found.how


def test_a_fault_that_does_not_come_again_has_no_place(template, captured) -> None:
    error = dataclasses.replace(captured("macro_odd_tile")[0].error, message="something else was wrong")
    found = found_in("macro_odd_tile", template, captured, fault=error)
    assert found.location is None
    assert "text" in found.how


def test_a_fault_read_from_text_alone_is_compared_by_what_it_says(template, captured) -> None:
    error = dataclasses.replace(captured("macro_odd_tile")[0].error, frames=(), pass_name=None)
    assert found_in("macro_odd_tile", template, captured, fault=error).location is not None


def test_without_time_nothing_is_claimed(template, captured) -> None:
    found = found_in("class_two_reductions", template, captured, deadline=time.monotonic())
    assert found.location is None or not found.minimal


def test_a_fault_of_the_settings_of_the_compile_has_no_place(template, captured) -> None:
    program = dataclasses.replace(captured("second_of_two")[0].program, pass_configs={"tl.no_such_option": True})
    found = localize(program, template, deadline=time.monotonic() + 60, read_source=read_source)
    assert found.location is None
