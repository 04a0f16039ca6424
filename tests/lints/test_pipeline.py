from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from lint_kernels import branch, buffer, call, kernel, kinds, loop, only, op, region, store, whole

from triage.model import KernelRecord, Place, Statement

A, Y = buffer("A", (16, 128), "global"), buffer("Y", (16, 128), "global")
S = buffer("s", (128,), "shared.dyn", line=4)
ROW = region("A", "read", (0, 15, 1), (0, 0, 128))
CLEAR = op("fill", whole(S, "write"), line=8)
READ = op("copy", whole(S, "read"), region("Y", "write", (0, 15, 1), (0, 0, 128)), line=10)
LOAD = op("copy", ROW, whole(S, "write"), line=11)
ELEMENTS = loop("parallel", 128, store(ROW, region("s", "write", (0, 127, 1))))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_load_that_goes_ahead_of_the_read(arch: str) -> None:
    hazard = only(
        kernel([A, Y, S], CLEAR, loop("pipelined", 16, READ, LOAD, num_stages=2)), "pipelined-overwrite", arch
    )
    assert hazard.at == Place("kernel.py", 11) and hazard.labels[0].line == 10 and hazard.certainty == "certain"
    assert hazard.fields == {"buffer": "s", "loop": "i", "num_stages": 2}


def test_one_stage_is_enough_where_warps_are_specialized() -> None:
    one = kernel([A, Y, S], CLEAR, loop("pipelined", "n", READ, LOAD, num_stages=1))
    assert only(one, "pipelined-overwrite").certainty == "likely"
    assert kinds(one, "sm_80") == []
    assert kinds(dataclasses.replace(one, pass_configs={"tl.disable_tma_lower": True})) == ["pipelined-overwrite"]
    assert kinds(dataclasses.replace(one, pass_configs={"tl.disable_warp_specialized": True})) == []


@pytest.mark.parametrize(
    "statement",
    [
        loop("pipelined", 16, LOAD, READ, num_stages=2),
        loop("pipelined", 16, READ, LOAD, num_stages=0),
        loop("serial", 16, READ, LOAD),
        loop("pipelined", 1, READ, LOAD),
        loop("pipelined", 16, READ, LOAD, num_stages=2, tl_pipeline_order=[0, 1], tl_pipeline_stage=[0, 0]),
        loop("pipelined", 16, READ, LOAD, call("mbarrier_wait_parity(b[0], 0)"), num_stages=2),
        loop("pipelined", 16, READ, branch("k < 15", LOAD), num_stages=2),
        loop("pipelined", 16, READ, CLEAR, LOAD, num_stages=2),
        loop("pipelined", 16, READ, CLEAR, num_stages=2),  # no load
        loop("pipelined", 16, loop("serial", 4, READ, LOAD), num_stages=2),  # ordered by the loop inside
    ],
)
def test_loops_that_keep_their_order(statement: Statement) -> None:
    assert "pipelined-overwrite" not in kinds(kernel([A, Y, S], CLEAR, statement))


def test_two_halves_used_in_turn() -> None:
    halves = buffer("s", (2, 128), "shared.dyn")
    read = op("copy", region("s", "read", (0, 0, 1), (0, 0, 128)), region("Y", "write", (0, 15, 1), (0, 0, 128)))
    load = op("copy", ROW, region("s", "write", (1, 1, 1), (0, 0, 128)))
    record = kernel([A, Y, halves], op("fill", whole(halves, "write")), loop("pipelined", 16, read, load, num_stages=2))
    assert kinds(record) == []


def test_a_load_by_elements() -> None:
    record = kernel([A, Y, S], CLEAR, loop("pipelined", 16, READ, ELEMENTS, num_stages=2))
    assert kinds(record) == ["pipelined-overwrite"]
    assert kinds(kernel([A, Y, S], CLEAR, loop("pipelined", 16, READ, ELEMENTS, num_stages=1))) == []


ROWS, TILE = buffer("Y", (16, 128), "global"), buffer("f", (128,), "local.fragment", line=5)
OUT = op("copy", whole(TILE, "read"), region("Y", "write", (0, 15, 1), (0, 0, 128)), line=13)
START = op("fill", whole(TILE, "write"), line=8)
UPDATE = loop(
    "parallel",
    128,
    store(
        region("s", "read", (0, 127, 1)), region("f", "read", (0, 127, 1)), region("f", "write", (0, 127, 1)), line=15
    ),
)
PRODUCERS = "float f_producer_ws[128];"


def stored(*body: Statement, stages: int = 2, **more: Any) -> KernelRecord:
    return kernel([A, ROWS, S, TILE], START, loop("pipelined", 16, *body, num_stages=stages, **more))


@pytest.mark.parametrize("body", [(OUT, LOAD, UPDATE), (LOAD, OUT, UPDATE)])
@pytest.mark.parametrize("stages", [1, 2])
def test_a_fragment_that_producers_store(body: tuple[Statement, ...], stages: int) -> None:
    record = stored(*body, stages=stages)
    hazard = only(record, "pipelined-store-by-producers")
    assert hazard.at == Place("kernel.py", 13) and hazard.labels[0].line == 15 and hazard.certainty == "likely"
    assert hazard.fields == {"buffer": "f", "loop": "i", "num_stages": stages}
    assert only(record, "pipelined-store-by-producers", source=PRODUCERS).certainty == "certain"
    assert kinds(record, source="float f[4];") == []


OTHER = loop("parallel", 128, store(region("f", "read", (0, 127, 1)), region("Y", "write", (0, 127, 1), (0, 0, 1))))


@pytest.mark.parametrize(
    "record",
    [
        stored(LOAD, UPDATE, OUT),
        stored(OUT, LOAD, op("copy", whole(S, "read"), region("Y", "write", (0, 15, 1), (0, 0, 128)))),  # no update
        stored(OUT, LOAD, UPDATE, stages=0),
        stored(OTHER, LOAD, UPDATE),  # element by element: the producers cannot do that
        stored(OUT, OTHER, LOAD, UPDATE),
        stored(OUT, UPDATE),  # nothing is loaded
        stored(OUT, LOAD, UPDATE, tl_pipeline_order=[0, 1, 2], tl_pipeline_stage=[0, 0, 1]),
        dataclasses.replace(stored(OUT, LOAD, UPDATE), pass_configs={"tl.disable_warp_specialized": True}),
        dataclasses.replace(stored(OUT, LOAD, UPDATE), target={"kind": "hip"}),
    ],
)
def test_fragments_that_their_own_warps_store(record: KernelRecord) -> None:
    assert "pipelined-store-by-producers" not in kinds(record, source=None)


def test_no_warps_are_specialized_before_hopper() -> None:
    assert kinds(stored(OUT, LOAD, UPDATE), "sm_80") == []
