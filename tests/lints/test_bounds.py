from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lint_kernels import branch, buffer, call, kernel, kinds, loop, only, op, region, store, whole

from triage.lints.bounds import Reach
from triage.model import Place

A = buffer("A", (1024,), "global")
S = buffer("s", (128,), "shared.dyn", line=6)
F = buffer("f", (128,), "local.fragment", line=7)
READY = (op("fill", whole(S, "write")), op("fill", whole(F, "write")))


def test_tail_tiles_and_negative_counting_on_global_memory_are_legal() -> None:
    for access in (
        region("A", "read", (0, 1100, 1)),
        region("A", "read", (-16, 1000, 1)),
        region("A", "read", (-1, -1, 1)),
        region("A", "read", (None, None, 1)),
    ):
        assert kinds(kernel([A], loop("parallel", 128, store(access)))) == []
    assert kinds(kernel([A, S], op("copy", region("A", "read", (0, 960, 128)), whole(S, "write")))) == []


@pytest.mark.parametrize(("low", "high", "masked"), [(2000, 2000, False), (1024, 1151, True), (-2000, -1873, True)])
def test_an_access_that_is_always_outside(low: int, high: int, masked: bool) -> None:
    record = kernel([A], loop("parallel", 128, store(region("A", "read", (low, high, 1)))))
    hazard = only(record, "index-out-of-bounds")
    assert hazard.at == Place("kernel.py", 10)
    assert (hazard.fields["always"], hazard.fields["masked"], hazard.fields["size"]) == (True, masked, 1024)
    assert hazard.labels[0].line == 1


def test_on_chip_memory_has_no_predicates() -> None:
    record = kernel([F, S], *READY, loop("parallel", 128, store(region("f", "read", (64, 191, 1)))))
    hazard = only(record, "index-out-of-bounds")
    assert (hazard.fields["buffer"], hazard.fields["last"], hazard.fields["always"]) == ("f", 191, False)
    record = kernel([F, S], *READY, store(region("s", "write", (-1, 126, 1))))
    assert kinds(record) == ["index-out-of-bounds"]


def test_a_fragment_that_all_its_loops_take_for_longer_works() -> None:
    small = buffer("f", (8,), "local.fragment", line=7)
    fill = loop("parallel", 64, store(region("f", "write", (0, 63, 1))))
    use = loop("parallel", 64, store(region("f", "read", (0, 63, 1)), region("A", "write", (0, 63, 1))))
    assert kinds(kernel([A, small], fill, use)) == ["fragment-shape-too-small"]
    declared = op("fill", whole(small, "write"))
    assert kinds(kernel([A, small], declared, use)) == ["index-out-of-bounds"]


def test_what_may_not_happen_is_not_held_against_anyone() -> None:
    beyond = region("s", "read", (0, 200, 1))
    inexact = dataclasses.replace(beyond, exact=False)
    guarded = dataclasses.replace(beyond, guarded=True)
    for statement in (
        store(inexact),
        store(guarded),
        branch("i < 128", store(beyond)),
        loop("serial", 201, branch("i == 127", call("loop_break()")), store(beyond)),
        loop("serial", 0, store(beyond)),
        loop("serial", "n", store(region("s", "read", (0, None, 1)))),
    ):
        assert kinds(kernel([S, F], *READY, statement)) == []


def test_a_number_stays_outside_whatever_the_condition_says() -> None:
    beyond = region("s", "read", (128, 128, 1))
    for statement in (branch("tx == 0", store(beyond)), store(dataclasses.replace(beyond, guarded=True))):
        assert only(kernel([S, F], *READY, statement), "index-out-of-bounds").certainty == "likely"
    varying = dataclasses.replace(beyond, index=("tx + 128",))
    assert kinds(kernel([S, F], *READY, branch("tx < 0", store(varying)))) == []


def test_after_an_early_return_nothing_is_certain() -> None:
    leaving = branch("bx > n", call("thread_return()"))
    assert kinds(kernel([S, F], *READY, leaving, store(region("s", "read", (0, 200, 1))))) == []
    beyond = store(region("s", "read", (200, 200, 1)))
    assert only(kernel([S, F], *READY, leaving, beyond), "index-out-of-bounds").certainty == "likely"
    assert kinds(kernel([S, F], *READY, beyond, leaving)) == ["index-out-of-bounds"]


def test_slices_of_tile_operators() -> None:
    slice_ = region("s", "write", (96, 96, 64))
    hazard = only(kernel([S, F], *READY, op("fill", slice_, line=12)), "region-out-of-bounds")
    assert hazard.at == Place("kernel.py", 12) and hazard.fields["op"] == "fill"
    assert (hazard.fields["first"], hazard.fields["last"], hazard.fields["size"]) == (96, 159, 128)
    assert kinds(kernel([S, F], *READY, op("copy", whole(F, "read"), slice_))) == ["region-out-of-bounds"]
    assert kinds(kernel([S, F], *READY, op("fill", region("s", "write", (-32, -32, 32))))) == []


def test_the_last_tile_of_a_copy_is_masked_but_no_other_operator_masks() -> None:
    tiles = region("s", "read", (0, 120, 24))
    assert kinds(kernel([S, F], *READY, loop("serial", 6, op("copy", tiles, whole(F, "write"))))) == []
    assert kinds(kernel([S, F], *READY, loop("serial", 6, op("reduce", tiles, whole(F, "write"))))) == [
        "region-out-of-bounds"
    ]


@given(st.integers(1, 12), st.integers(-30, 30), st.integers(0, 20), st.integers(1, 8))
def test_reach_agrees_with_touching_every_element(size: int, low: int, width: int, extent: int) -> None:
    high = low + width
    wrap = size if high < 0 else 0  # an index that is always negative counts from the end
    touched = {start + wrap + n for start in range(low, high + 1) for n in range(extent)}
    reach = Reach(0, size, low, high, extent)
    assert reach.sometimes_outside() == (not touched <= set(range(size)))
    assert reach.always_outside() == touched.isdisjoint(range(size))
