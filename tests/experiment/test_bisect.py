"""Bisection of real lowerings: faults whose cure is known, one that no switch cures, and starts that cannot be relied on."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from captured import capture

from triage.experiment.bisect import Bisecting, Bisection, bisect
from triage.experiment.blame import first_difference
from triage.experiment.search import Search
from triage.experiment.template import Result, Template
from triage.knowledge.files import rules_root
from triage.knowledge.switches import NO_PASSES, load_switches

pytestmark = pytest.mark.tilelang

TABLE = load_switches(rules_root() / "reference" / "switches.toml")
SWITCHES = Path(__file__).resolve().parent / "switches"


def rows(*names: str):
    """A part of the table, so that a test takes seconds."""
    assert set(names) <= {row.name for row in TABLE}
    return [row for row in TABLE if row.name in names]


@pytest.fixture(scope="session")
def failing(tmp_path_factory):
    """`failing("name")` is a kernel of `switches/faults.py`, which is run once a session."""
    pytest.importorskip("tilelang")
    kernels = {kernel.name: kernel for kernel in capture(SWITCHES / "faults.py", tmp_path_factory.mktemp("faults"))}
    assert all(kernel.error is not None for kernel in kernels.values()), kernels
    return kernels.__getitem__


def run(kernel, template: Template, *names: str, **options) -> Bisection:
    table = rows(*names) if names else TABLE
    deadline = options.pop("deadline", time.monotonic() + 300)
    return bisect(kernel.program, template, table, deadline=deadline, fault=kernel.error, **options)


def told(found: Bisection) -> list[list[str]]:
    return [[f"{s.what} {s.was} → {s.now}" for s in one.settings] for one in found.sets]


class Wrapped:
    """The template of all tests, with something changed about it."""

    def __init__(self, template: Template) -> None:
        self.template = template

    def __getattr__(self, name: str):
        return getattr(self.template, name)


class Short(Wrapped):
    """Time is up as soon as one switch has helped."""

    search: Search

    def run(self, program, *args, **options) -> Result:
        shown = self.template.run(program, *args, **options)
        if "tl.disable_warp_specialized" in program.pass_configs:
            self.search.deadline = 0.0
        return shown


class Unsteady(Wrapped):
    """The fault goes from the repetition `gone` on, as it does where a compiler is not deterministic."""

    gone = 0

    def again(self, *args, **options) -> Result:
        self.gone -= 1
        shown = self.template.again(*args, **options)
        return shown if self.gone > 0 else dataclasses.replace(shown, status="succeeded", error=None, pass_name=None)


def test_a_fault_of_warp_specialization_goes_without_it_and_is_the_compilers(template, failing) -> None:
    names = ("tl.disable_warp_specialized", "num_stages", "tl.disable_loop_unswitching", "tirx.disable_vectorize")
    found = run(failing("persistent"), template, *names)
    assert told(found) == [["tl.disable_warp_specialized unset → True"], ["num_stages of the loop over part 2 → 0"]]
    first, second = found.sets
    assert "tl.ProducerConsumerWarpSpecialized, is not run with it" in first.blame
    assert first.passes[:1] == ("tl.AutoWarpSpecialization",) and first.effect == "preserves"
    assert "is not shown by that" in second.blame
    assert found.compiler and found.complete


def test_what_was_not_tried_to_the_end_accuses_nobody(template, failing) -> None:
    short = Short(template)
    work = Bisecting(Search(failing("persistent").program, short, time.monotonic() + 300), False, lambda line: None)
    short.search = work.search
    assert work.search.begin(failing("persistent").error) is None
    found = work.run(rows("tl.disable_warp_specialized", "threads"))
    assert told(found) == [["tl.disable_warp_specialized unset → True"]]
    assert not found.complete and not found.compiler


def test_threads_that_do_not_cover_a_tile_are_the_scripts_and_have_a_passing_neighbour(template, failing) -> None:
    found = run(failing("warps"), template, "threads", "tl.disable_wgmma")
    assert told(found) == [["threads 224 → 256"]]
    assert [(n.kind, n.was, n.now) for n in found.neighbours] == [("threads", "224", "256")]
    assert not found.compiler


@pytest.mark.slow
def test_what_the_script_turned_off_itself_is_named_first(template, failing) -> None:
    names = ("tirx.disable_vectorize", "tirx.use_async_copy", "num_stages", "tl.config_index_bitwidth")
    found = run(failing("unvectorized"), template, *names)
    assert told(found) == [
        ["tirx.disable_vectorize True → unset"],
        ["num_stages of the loop over k 3 → 0"],
        ["tirx.use_async_copy unset → False"],
    ]
    assert "tl.VectorizeLoop makes another program" in found.sets[0].blame
    assert "tl.PipelinePlanning" in found.sets[2].blame and "tl.PipelinePlanning" in found.sets[2].passes
    assert not found.compiler  # it combined two switches that exclude each other


def test_two_switches_that_are_needed_together_are_found(template, failing) -> None:
    found = run(failing("two_orders"), template, "pipeline order and stages", "tl.force_let_inline", "num_stages")
    (one,) = found.sets
    assert len(one.settings) == 2 and {s.what.split(" of ")[1] for s in one.settings} == {
        "the loop over k",
        "the loop over n",
    }
    assert not found.compiler


def test_a_fault_of_one_architecture_goes_on_another_and_is_not_the_compilers(template, failing) -> None:
    found = run(failing("handover"), template, "architecture", "tl.enable_async_copy", "threads")
    assert told(found) == [["architecture sm_80 → sm_90"]]
    assert not found.compiler


def test_where_no_switch_helps_it_is_said(template, failing) -> None:
    found = run(failing("too_small"), template, "threads", "tirx.disable_vectorize", "tl.force_let_inline")
    assert found.sets == () and found.how == "no switch makes the fault go" and found.complete


def test_the_nearest_extent_and_data_type_that_work_are_told(template, failing) -> None:
    found = run(failing("odd_tile"), template, "tl.force_let_inline")
    assert [(n.kind, n.what, n.was, n.now) for n in found.neighbours] == [("extent", "extent of a, c", "100", "128")]
    found = run(failing("too_small"), template, "tl.force_let_inline")
    assert [(n.kind, n.what, n.was, n.now) for n in found.neighbours] == [("extent", "extent of rows", "16", "64")]
    found = run(failing("unvectorized"), template, "tirx.disable_vectorize")
    assert [(n.kind, n.was, n.now) for n in found.neighbours][-1:] == [("dtype", "float16", "float32")]


@pytest.mark.slow
def test_a_fault_that_does_not_come_again_is_not_bisected(template, failing, captured) -> None:
    good, _ = captured("second_of_two")
    found = bisect(good.program, template, TABLE, deadline=time.monotonic() + 60, fault=failing("warps").error)
    assert found.sets == () and "lowers when it is tried again" in found.how
    other = failing("too_small")
    found = bisect(other.program, template, TABLE, deadline=time.monotonic() + 60, fault=failing("warps").error)
    assert found.sets == () and "another error" in found.how


@pytest.mark.parametrize(
    ("gone", "why"), [(2, "two lowerings of the unchanged kernel differ"), (4, "any more at the end")]
)
def test_a_start_that_is_not_steady_claims_nothing(gone: int, why: str, template, failing) -> None:
    unsteady = Unsteady(template)
    unsteady.gone = gone
    found = run(failing("warps"), unsteady, "threads")
    assert found.sets == () and why in found.how and not found.complete


def test_without_time_nothing_is_claimed(template, failing) -> None:
    found = run(failing("warps"), template, deadline=time.monotonic())
    assert found.sets == () and "ran out" in found.how and not found.complete


@pytest.mark.slow
def test_experiments_are_answered_from_disk_by_another_template(failing, tmp_path) -> None:
    kernel = failing("warps")
    counts = []
    for _ in range(2):
        with Template(tmp_path, target={"kind": "cuda", "arch": "sm_90a"}) as one:
            found = run(kernel, one, "threads", "tl.disable_wgmma")
            counts.append(one.count)
        assert told(found) == [["threads 224 → 256"]]
    assert counts[1] < counts[0] and counts[1] <= 4  # the start twice and once more, and the set once more


def test_passes_and_their_programs_are_the_same_in_every_process(template, captured) -> None:
    program = captured("second_of_two")[0].program
    one, two = (template.again(program, "codegen") for _ in range(2))
    assert one.facts["trace"] == two.facts["trace"] and one.facts["source"] == two.facts["source"]
    assert all(digest for _, digest in one.facts["trace"])


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_what_a_pass_config_changes_first_is_a_pass_that_it_governs(arch: str, template, captured) -> None:
    """And every pass that the table names is one that lowering names so."""
    programs = [captured("second_of_two")[0].program, captured("repeated_gemm")[0].program]
    names = set(NO_PASSES)
    for program in (dataclasses.replace(p, target={"kind": "cuda", "arch": arch}) for p in programs):
        plain = template.run(program, "codegen").facts["trace"]
        names |= {name for name, _ in plain}
        for row in TABLE:
            if row.kind != "pass-config" or row.value is None:
                continue
            value = not row.value if row.key == "tl.disable_data_race_check" else row.value
            changed = template.run(dataclasses.replace(program, pass_configs={row.key: value}), "codegen").facts[
                "trace"
            ]
            names |= {name for name, _ in changed}
            first = first_difference(plain, changed)
            assert first is None or first.split()[0] in row.passes, (row.name, first)
    needed = {
        name
        for row in TABLE
        for name in row.passes
        if not row.arch or row.arch[0] <= int(arch[3:].rstrip("a")) <= row.arch[1]
    }
    hopper_only = {"tl.AutoWarpSpecialization", "tl.MaterializeWSSchedule", "tl.ProducerConsumerWarpSpecialized"}
    assert needed - names <= (hopper_only if arch == "sm_80" else set())


@pytest.mark.slow
def test_a_fault_that_only_the_device_compiler_sees_goes_with_the_features_of_the_architecture(
    template, tmp_path
) -> None:
    (kernel,) = capture(SWITCHES / "plain_hopper.py", tmp_path)
    names = ("architecture", "tl.disable_loop_unswitching", "tl.disable_warp_specialized")
    found = run(kernel, template, *names, device=True)
    assert ["architecture sm_90 → sm_90a"] in told(found)
    assert all(one.level == "builds" for one in found.sets)
    assert not found.compiler


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pipeline_in_while", "annotated_accumulator", "short_order", "dynamic_fragment"])
def test_the_whole_table_ends_with_sets_that_work(name: str, template, captured) -> None:
    found = run(captured(name)[-1], template)
    assert found.complete
    assert found.compiler == (name == "pipeline_in_while")
    assert bool(found.sets) == (name != "dynamic_fragment"), found
