from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import replace

import pytest
from captured import KERNELS, capture

from triage.experiment.client import TemplateError
from triage.experiment.template import Change, Program, Template, identity
from triage.numerics.layout import Layout

pytestmark = pytest.mark.tilelang


def test_a_good_kernel_lowers_and_a_bad_one_shows_the_error_the_script_saw(template, captured) -> None:
    good, bad = captured("second_of_two")
    assert template.run(good.program, "codegen").status == "succeeded"
    result = template.run(bad.program, "lower")
    assert result.status == "failed"
    assert result.pass_name == "tl.LayoutInference"
    assert result.error.phase == "lower"
    assert (result.error.type, result.error.message) == (bad.error.type, bad.error.message)
    assert result.error.frames[-1].file == bad.error.frames[-1].file


def test_the_template_forks_without_other_threads(template) -> None:
    assert template.ready["threads"] in (1, None)


def units(template: Template, program: Program) -> dict[str, list[dict]]:
    by_kind: dict[str, list[dict]] = {}
    for unit in template.run(program, "units").facts["units"]:
        by_kind.setdefault(unit["kind"], []).append(unit)
    return by_kind


def test_units_name_what_the_author_wrote(template, captured) -> None:
    (kernel,) = captured("annotated_accumulator")
    found = units(template, kernel.program)
    assert [u["op"].split(".")[-1] for u in found["statement"]] == ["fill", "copy", "copy", "gemm", "copy"]
    assert [u["span"]["line"] for u in found["statement"]] == [13, 15, 16, 17, 18]
    assert all(u["span"]["user"] for u in found["statement"])
    gemm = found["statement"][3]
    assert (gemm["reads"], gemm["writes"]) == (["left", "right", "total"], ["total"])
    assert [u["buffers"] for u in found["allocation"]] == [["left"], ["right"], ["total"]]
    assert [u["span"]["line"] for u in found["allocation"]] == [9, 10, 11]
    assert [(u["key"], u["buffers"]) for u in found["annotation"]] == [("layout_map", ["total"])]
    assert [(u["key"], u["value"]) for u in found["loop-annotation"]] == [("num_stages", 3)]
    assert found["threads"][0]["value"] == [128, 1, 1]
    assert gemm["parent"] == found["loop"][0]["path"]


def test_every_unit_can_be_taken_away_from_a_good_kernel(template, captured) -> None:
    good, _ = captured("second_of_two")
    listed = template.run(good.program, "units").facts["units"]
    for unit in listed:
        if unit["kind"] == "parameter":
            continue
        value = [64, 1, 1] if unit["kind"] == "threads" else None
        result = template.run(good.program, "lower", [Change(unit["id"], value)])
        assert result.status != "infra_error", (unit, result.why)


def test_a_region_can_be_opened_whose_other_statements_are_gone(template, captured) -> None:
    (kernel,) = captured("copy_in_attribute")
    found = units(template, kernel.program)
    (region,) = found["attribute-around"]
    before, first, *_ = found["statement"]
    assert first["parent"] == region["path"] != before["parent"]
    changes = [Change(before["id"]), Change(first["id"]), Change(region["id"])]
    result = template.run(kernel.program, "lower", changes)
    assert (result.status, result.why) == ("failed", "")
    assert "smaller than" in result.error.message


def test_a_change_of_something_that_is_not_there_is_no_evidence(template, captured) -> None:
    good, _ = captured("second_of_two")
    result = template.run(good.program, "lower", [Change("drop:0.9.9")])
    assert result.status == "infra_error"
    assert "0.9.9" in result.why


def test_an_experiment_is_answered_from_memory(template, captured) -> None:
    good, _ = captured("second_of_two")
    template.run(good.program, "lower")
    count = template.count
    assert template.run(good.program, "lower").status == "succeeded"
    assert template.count == count
    assert template.again(good.program, "lower").status == "succeeded"
    assert template.count == count + 1


def test_identity_is_what_decides_the_outcome(captured) -> None:
    program = captured("second_of_two")[0].program
    one, two = Change("drop:0.1"), Change("drop:0.2")
    assert identity(program, "lower", [one, two]) == identity(program, "lower", [two, one])
    assert identity(program, "lower", [one]) != identity(program, "lower", [two])
    assert identity(program, "lower", []) != identity(program, "codegen", [])
    assert identity(program, "lower", []) != identity(replace(program, target="c"), "lower", [])


def test_a_pass_config_that_does_not_exist_fails_as_it_does_in_the_script(template, captured) -> None:
    program = replace(captured("second_of_two")[0].program, pass_configs={"tl.no_such_option": True})
    result = template.run(program, "lower")
    assert result.status == "failed"
    assert "tl.no_such_option" in result.error.message


def test_an_unreadable_program_is_no_evidence(template, tmp_path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    result = template.run(Program(broken), "lower")
    assert result.status == "infra_error"
    assert result.why


def test_a_time_limit_ends_the_worker_and_not_the_template(template, captured) -> None:
    good, _ = captured("second_of_two")
    assert template.again(good.program, "codegen", seconds=0.0001).status == "timed_out"
    assert template.again(good.program, "lower").status == "succeeded"


def test_a_program_that_is_not_there_is_said_so(template, tmp_path) -> None:
    with pytest.raises(TemplateError, match="cannot be read"):
        template.run(Program(tmp_path / "none.json"))


def test_the_end_of_the_client_is_the_end_of_the_template(tmp_path, captured) -> None:
    with Template(tmp_path / "t") as running:
        pid = running._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(TemplateError, match="not running"):
        running.run(captured("second_of_two")[0].program)


def test_an_interpreter_that_is_none_is_said_so(tmp_path) -> None:
    with pytest.raises(TemplateError, match="cannot be started"), Template(tmp_path, python="/no/such/python"):
        pass


def test_an_interpreter_without_tilelang_is_said_so(tmp_path) -> None:
    (tmp_path / "tilelang.py").write_text("raise ImportError('no tilelang here')")
    with (
        pytest.raises(TemplateError, match="no tilelang here"),
        Template(tmp_path / "t", env={"PYTHONPATH": str(tmp_path)}),
    ):
        pass


def test_a_template_that_dies_is_said_so(tmp_path) -> None:
    start = time.monotonic()
    with (
        pytest.raises(TemplateError, match="ended"),
        Template(tmp_path, python=sys.executable, env={"PYTHONHOME": "/nowhere"}),
    ):
        pass
    assert time.monotonic() - start < 100  # it was noticed, and not waited for until the limit


def test_inferred_layouts_are_tables_of_threads_and_places(template, captured, tmp_path) -> None:
    (kernel,) = capture(KERNELS.parent / "healthy" / "matmul.py", tmp_path)
    result = template.run(kernel.program, "layouts")
    found = {layout.buffer: layout for layout in map(Layout.of, result.facts["layouts"])}
    fragments = [layout for layout in found.values() if layout.threads]
    shared = [layout for layout in found.values() if layout.scope.startswith("shared")]
    assert fragments and shared
    for layout in fragments:  # no two elements of a thread share a register
        held = list(zip(layout.threads[0], layout.index, strict=True))
        assert len(set(held)) == len(held) == math.prod(layout.shape)
    for layout in shared:
        assert sorted(layout.index) == list(range(math.prod(layout.shape)))
    assert any(not layout.in_order and layout.group == 8 for layout in shared)  # 16 bytes of float16 stay together
    _, bad = captured("second_of_two")
    assert template.run(bad.program, "layouts").status == "failed"
