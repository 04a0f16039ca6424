from __future__ import annotations

from typing import Any

from triage.experiment.choose import Evidence, Unit, choose, threads
from triage.experiment.oracle import Verdict
from triage.model import Confidence


def statement(number: int, op: str | None = None, parent: str | None = None, **fields: Any) -> Unit:
    path = f"{parent}.{number}" if parent else f"0.{number}"
    return Unit(f"drop:{path}", "statement", op or "store", path, parent, op=op, **fields)


def evidence(kept: list[Unit], text: str = "it failed", **fields: Any) -> Evidence:
    alone = {unit.id: Verdict.NONE for unit in kept}
    alone |= fields.pop("alone", {})
    given = {"around": (), "settings": (), "declarations": ()} | fields
    return Evidence(kept=tuple(kept), alone=alone, text=text, **given)


GEMM = statement(0, "tl.tileop.gemm", buffers=("c", "a", "b"), reads=("a", "b", "c"), writes=("c",))


def test_the_only_statement_needed_is_confirmed_when_the_kernel_lowers_without_it() -> None:
    choice = choose(evidence([GEMM]))
    assert (choice.unit, choice.confidence) == (GEMM, Confidence.CONFIRMED)


def test_a_kernel_without_any_statement_left_confirms_nothing() -> None:
    """Every error goes without it, also one about something else; only what the error names can tell that it is this."""
    choice = choose(evidence([GEMM], "one symbol is not bound", whole=frozenset({GEMM.id})))
    assert (choice.unit, choice.confidence) == (GEMM, Confidence.POSSIBLE)
    named = choose(evidence([GEMM], f"cannot place {GEMM.buffers[0]}", whole=frozenset({GEMM.id})))
    assert (named.unit, named.confidence) == (GEMM, Confidence.LIKELY)


def test_another_error_without_it_confirms_nothing() -> None:
    choice = choose(evidence([GEMM], alone={GEMM.id: Verdict.OTHER}))
    assert (choice.unit, choice.confidence) == (GEMM, Confidence.LIKELY)


LAUNCH = Unit("threads:0", "threads", "threads = [100, 1, 1]", "0", value=[100, 1, 1])


def test_the_thread_count_is_blamed_when_the_error_counts_warps_and_another_count_lowers() -> None:
    text = "cannot be evenly covered by 3 warps; adjust `threads` or the tile"
    choice = choose(evidence([GEMM], text, settings=(LAUNCH,), alone={LAUNCH.id: Verdict.NONE}))
    assert (choice.unit, choice.confidence) == (LAUNCH, Confidence.CONFIRMED)
    assert [unit for unit, _ in choice.others] == [GEMM]


def test_an_odd_tile_is_blamed_before_a_usual_thread_count() -> None:
    usual = Unit("threads:0", "threads", value=[128, 1, 1])
    text = "M=80, N=64 cannot be evenly covered by 4 warps; adjust `threads` or the tile"
    found = choose(evidence([GEMM], text, settings=(usual,), alone={usual.id: Verdict.NONE}))
    assert found.unit == GEMM
    found = choose(evidence([GEMM], text.replace("80", "16"), settings=(usual,), alone={usual.id: Verdict.NONE}))
    assert found.unit == usual


def test_the_thread_count_is_not_blamed_for_an_error_that_does_not_count_threads() -> None:
    text = "sync inside the else branch: its participating threads are not warp-uniform"
    usual = Unit("threads:0", "threads", value=[128, 1, 1])
    found = choose(evidence([GEMM], text, settings=(usual,), alone={usual.id: Verdict.NONE}))
    assert (found.unit, found.confidence) == (GEMM, Confidence.LIKELY)
    assert found.others[0][0] == usual  # but it is told that another count helps


def test_an_unusual_thread_count_is_blamed_when_another_lowers_whatever_the_error_says() -> None:
    many = Unit("threads:0", "threads", value=[1024, 1, 1])
    found = choose(evidence([GEMM], "not a canonical layout", settings=(many,), alone={many.id: Verdict.NONE}))
    assert (found.unit, found.confidence) == (many, Confidence.LIKELY)


def test_one_of_two_wrong_annotations_is_blamed_for_the_error_about_its_buffer() -> None:
    layout = Unit("note:0:layout_map:0", "annotation", "layout_map of a", "0", key="layout_map", buffers=("a",))
    alone = {layout.id: Verdict.OTHER, "alloc:a": Verdict.NONE}
    found = choose(
        evidence(
            [], "Invalid layout for `a`", settings=(layout,), alone=alone, declarations=(declaration("a", "int8"),)
        )
    )
    assert (found.unit, found.confidence) == (layout, Confidence.LIKELY)


def test_the_thread_count_is_not_blamed_when_no_other_count_lowers() -> None:
    text = "adjust `threads`"
    assert choose(evidence([GEMM], text, settings=(LAUNCH,), alone={LAUNCH.id: Verdict.OTHER})).unit == GEMM


def test_an_annotation_whose_removal_lets_everything_lower_is_the_place() -> None:
    layout = Unit("note:0:layout_map:0", "annotation", "layout_map of c", "0", key="layout_map", buffers=("c",))
    choice = choose(evidence([GEMM], "Get different layout for c", settings=(layout,), alone={layout.id: Verdict.NONE}))
    assert (choice.unit, choice.confidence) == (layout, Confidence.CONFIRMED)


def test_a_layout_of_a_loop_is_blamed_for_errors_about_layouts_only() -> None:
    info = {"var": "i", "kind": "parallel", "extent": "64"}
    layout = Unit(
        "note:0.3:parallel_loop_layout", "loop-annotation", "its layout", "0.3", key="parallel_loop_layout", loop=info
    )
    cured = {"settings": (layout,), "alone": {layout.id: Verdict.NONE}}
    assert choose(evidence([GEMM], "Loop layout is not injective", **cured)).unit == layout
    assert choose(evidence([GEMM], "M must be divisible by 16", **cured)).unit == GEMM


def test_of_a_conflict_the_statement_where_the_others_meet() -> None:
    rows = statement(0, "tl.tileop.reduce", buffers=("r", "f"), reads=("f",), writes=("r",))
    columns = statement(1, "tl.tileop.reduce", buffers=("c", "f"), reads=("f",), writes=("c",))
    add = statement(2, None, buffers=("r", "c"), reads=("r", "c"), writes=("r",))
    choice = choose(evidence([rows, columns, add]))
    assert (choice.unit, choice.confidence) == (add, Confidence.LIKELY)
    assert {unit for unit, _ in choice.others} == {rows, columns}


def test_many_statements_without_a_hint_are_only_possible() -> None:
    chain = [statement(n, None, buffers=(f"b{n}", f"b{n + 1}"), writes=(f"b{n}",)) for n in range(7)]
    assert choose(evidence(chain)).confidence == Confidence.POSSIBLE


def loop(number: int, kind: str = "parallel", parent: str | None = None, extent: str = "n") -> tuple[Unit, Unit]:
    path = f"{parent}.{number}" if parent else f"0.{number}"
    info = {"var": "i", "kind": kind, "extent": extent}
    return (
        Unit(f"drop:{path}", "loop", f"for i in {kind}", path, parent, loop=info),
        Unit(f"unwrap:{path}", "loop-around", f"for i in {kind}", path, parent, loop=info),
    )


def test_an_operator_that_may_not_be_in_a_loop_is_the_place_and_the_loop_a_label() -> None:
    outer, around = loop(0)
    copy = statement(0, "tl.tileop.copy", outer.path, buffers=("s", "A"), writes=("s",))
    choice = choose(evidence([outer, copy], "Got a tile-op tl.tileop.copy", around=(around,), ops=frozenset({"copy"})))
    assert choice.unit == copy
    assert outer in [unit for unit, _ in choice.others]


def test_a_loop_that_only_holds_the_statement_is_no_candidate() -> None:
    outer, _ = loop(0, "serial")
    copy = statement(0, "tl.tileop.copy", outer.path)
    assert choose(evidence([outer, copy])).confidence == Confidence.CONFIRMED


def test_of_two_loops_the_inner_one() -> None:
    outer, around = loop(0)
    inner, _ = loop(0, "serial", outer.path)
    assert choose(evidence([outer, inner], "cannot be nested", around=(around,))).unit == inner


def test_a_symbolic_extent_points_at_the_loop_that_has_it() -> None:
    outer, around = loop(0)
    store = statement(0, None, outer.path, buffers=("f",), writes=("f",))
    symbol = Unit("symbol:n", "symbol", "n is symbolic", value="n", choices=(outer.id,))
    text = "Loop variable i in a loop with symbolic range (min=0, extent=n) indexes a fragment"
    choice = choose(
        evidence([outer, store], text, around=(around,), settings=(symbol,), alone={symbol.id: Verdict.NONE})
    )
    assert (choice.unit, choice.confidence) == (outer, Confidence.CONFIRMED)


def declaration(name: str, dtype: str, kind: str = "allocation") -> Unit:
    value = {"dtype": dtype, "shape": [128], "scope": "shared"}
    return Unit(f"alloc:{name}", kind, f"{name}: {dtype}", buffers=(name,), value=value)


def test_a_data_type_nobody_has_points_at_the_declaration_with_it() -> None:
    one, two = declaration("s", "float17"), declaration("t", "float16")
    dtype = Unit("dtype:float17", "dtype", "data type float17", value="float17", buffers=("s",))
    found = choose(
        evidence(
            [GEMM],
            "Cannot convert type float17",
            settings=(dtype,),
            alone={dtype.id: Verdict.NONE},
            declarations=(one, two),
        )
    )
    assert (found.unit, found.confidence) == (one, Confidence.CONFIRMED)


def test_a_data_type_that_exists_does_not_take_the_blame_from_the_operator() -> None:
    one = declaration("a", "float16")
    dtype = Unit("dtype:float16", "dtype", "data type float16", value="float16", buffers=("a",))
    found = choose(
        evidence(
            [GEMM], "no atomic for float16", settings=(dtype,), alone={dtype.id: Verdict.NONE}, declarations=(one,)
        )
    )
    assert found.unit == GEMM


def test_without_statements_a_declaration_and_without_one_nothing() -> None:
    barrier, other = declaration("b", "uint64"), declaration("s", "float16")
    alone = {barrier.id: Verdict.NONE, other.id: Verdict.SAME}
    found = choose(evidence([], alone=alone, declarations=(barrier, other)))
    assert (found.unit, found.confidence) == (barrier, Confidence.CONFIRMED)
    nothing = choose(evidence([], alone={barrier.id: Verdict.SAME}, declarations=(barrier,)))
    assert (nothing.unit, nothing.confidence) == (None, None)


def test_thread_counts_read_as_they_are_written() -> None:
    assert threads(LAUNCH) == "100"
    assert threads(Unit("threads:0", "threads", value=[16, 16, 1])) == "(16, 16)"
