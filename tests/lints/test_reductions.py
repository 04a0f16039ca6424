"""Sums that lose terms: what the recorded kernels do not show of `reductions`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from lint_kernels import FILE, branch, buffer, call, kernel, kinds, loop, only, op, region, whole

from triage.model import Access, BufferInfo, Place, Statement, TileOp

A, B = buffer("a", (128, 64), "shared.dyn", "float16"), buffer("b", (64, 128), "shared.dyn", "float16")
C = buffer("c", (128, 128), "local.fragment")
X, Y = buffer("X", (128, 500), "global", "float16"), buffer("Y", (500, 128), "global", "float16")
OUT = buffer("OUT", (128, 128), "global")
BUFFERS = [A, B, C, X, Y, OUT]
CLEAR = op("fill", whole(C, "write"), line=11)
STORE = op("copy", whole(C, "read"), whole(OUT, "write"), line=14)


def gemm(clear: Any = False) -> Statement:
    call = op("gemm", whole(A, "read"), whole(B, "read"), whole(C, "readwrite"), clear_accum=clear, line=12)
    return dataclasses.replace(call, op=TileOp("gemm", ("a[0]", "b[0]", "c[0]"), {"clear_accum": clear}))


def tile(of: BufferInfo, dimension: int, extent: int | None, **more: Any) -> Access:
    """What `of[…, i * 64]` reads in that many iterations over `i`."""
    high = 64 * (extent - 1) if extent is not None else None
    dims: list[tuple[int | None, int | None, int | None]] = [(0, 0, 128), (0, 0, 128)]
    dims[dimension] = (0, high, 64)
    access = region(of.name, "read", *dims, **more)
    return dataclasses.replace(access, index=tuple("i * 64" if d == dimension else "0" for d in range(2)))


def loads(extent: int | None = 7, **more: Any) -> tuple[Statement, Statement]:
    return (
        op("copy", tile(X, 1, extent, **more), whole(A, "write"), line=9),
        op("copy", tile(Y, 0, extent, **more), whole(B, "write"), line=10),
    )


def test_an_accumulator_cleared_in_the_loop_keeps_the_last_product_only() -> None:
    hazard = only(
        kernel(BUFFERS, loop("pipelined", "n", *loads(None), CLEAR, gemm()), STORE), "accumulator-cleared-each-step"
    )
    assert (hazard.at, hazard.certainty) == (Place(FILE, 11), "certain")
    assert hazard.fields == {"buffer": "c", "loop": "i", "extent": "n"}
    assert [label.line for label in hazard.labels] == [12]


SUMMED = buffer("s", (128,), "local.fragment")
VIEW = dataclasses.replace(C, name="v", shape=(16384,), alias_of="c")


@pytest.mark.parametrize(
    "statements",
    [
        (CLEAR, loop("pipelined", 8, *loads(8), gemm()), STORE),  # cleared once
        (loop("pipelined", 8, *loads(8), CLEAR, gemm(), STORE),),  # handed on each time
        (loop("serial", 8, STORE, *loads(8), CLEAR, gemm()), STORE),  # handed on by the next one
        (loop("serial", 1, *loads(1), CLEAR, gemm()), STORE),  # the only one
        (loop("parallel", 8, *loads(8), CLEAR, gemm()), STORE),
        (loop("serial", 8, CLEAR, gemm()), STORE),  # the same each time
        (loop("serial", 8, *loads(8), CLEAR, gemm()),),  # nothing reads any of them
        (loop("serial", 8, *loads(8), branch("i == 0", CLEAR), gemm()), STORE),
        (loop("serial", 8, *loads(8), CLEAR, branch("i < n", gemm())), STORE),
        (loop("serial", 8, *loads(8), gemm(), CLEAR, STORE), STORE),
        (
            loop("serial", 8, *loads(8), CLEAR, gemm(), branch("i > n", call("loop_break()"))),
            STORE,
        ),  # the last is meant
        (loop("serial", 8, *loads(8), CLEAR, gemm(), op("reduce", whole(C, "read"), whole(SUMMED, "write"))), STORE),
        (loop("serial", 8, *loads(8), CLEAR, gemm(), op("copy", whole(VIEW, "read"), whole(OUT, "write"))), STORE),
        (loop("serial", 8, *loads(8), CLEAR, gemm(), call("extern('send', access_ptr(c))")), STORE),
        (loop("serial", 8, *loads(8), op("fill", region("c", "write", (0, 0, 64), (0, 0, 128))), gemm()), STORE),
    ],
)
def test_a_product_that_something_uses_is_not_lost(statements: tuple[Statement, ...]) -> None:
    assert "accumulator-cleared-each-step" not in kinds(kernel([*BUFFERS, SUMMED, VIEW], *statements))


def test_a_tail_that_no_iteration_reads() -> None:
    hazard = only(kernel(BUFFERS, CLEAR, loop("pipelined", 7, *loads(), gemm()), STORE), "reduction-cut-short")
    assert (hazard.at, hazard.certainty) == (Place(FILE, 9), "likely")
    assert hazard.fields == {
        "buffer": "X", "loop": "i", "extent": 7, "tile": 64, "size": 500, "rest": 52, "dimension": 1
    }  # fmt: skip
    assert [label.line for label in hazard.labels] == [9]
    first = gemm("i == 0")  # which clears in the first iteration only
    assert kinds(kernel(BUFFERS, CLEAR, loop("serial", 7, *loads(), first), STORE)) == ["reduction-cut-short"]


def of_size(size: int | str) -> list[BufferInfo]:
    return [A, B, C, dataclasses.replace(X, shape=(128, size)), dataclasses.replace(Y, shape=(size, 128)), OUT]


TAIL = op("copy", dataclasses.replace(region("X", "read", (0, 0, 128), (448, 448, 52))), whole(A, "write"))
ANYWHERE = op("copy", region("X", "read", (0, 0, 128), (None, None, 1)), whole(A, "write"))


@pytest.mark.parametrize(
    ("buffers", "statements"),
    [
        (of_size(448), (CLEAR, loop("serial", 7, *loads(), gemm()), STORE)),
        (of_size(512), (CLEAR, loop("serial", 7, *loads(), gemm()), STORE)),  # a whole tile less was meant
        (of_size("n"), (CLEAR, loop("serial", 7, *loads(), gemm()), STORE)),
        (of_size(500), (CLEAR, loop("serial", 8, *loads(8), gemm()), STORE)),  # the last tile reaches outside
        ([A, B, C, X, buffer("Y", (448, 128), "global", "float16"), OUT], (CLEAR, loop("serial", 7, *loads(), gemm()), STORE)),
        (BUFFERS, (CLEAR, loop("serial", "n", *loads(None), gemm()), STORE)),
        (BUFFERS, (CLEAR, loop("serial", 7, *loads(), gemm()), TAIL, gemm(), STORE)),
        (BUFFERS, (CLEAR, loop("serial", 7, *loads(), gemm()), ANYWHERE, gemm(), STORE)),
        (BUFFERS, (CLEAR, loop("serial", 7, *loads(exact=False), gemm()), STORE)),
        (BUFFERS, (loop("serial", 7, *loads(), CLEAR, gemm(), STORE),)),  # no sum over the loop
        (BUFFERS, (CLEAR, loop("serial", 7, *loads(), branch("i < n", gemm())), STORE)),
        (BUFFERS, (CLEAR, loop("serial", 7, *loads(), op("copy", whole(A, "read"), whole(OUT, "write"))), gemm(), STORE)),
        (BUFFERS, (CLEAR, loop("serial", 7, *loads(), gemm()), call("extern('rest', access_ptr(X))"), STORE)),
    ],
)  # fmt: skip
def test_a_tail_that_may_not_be_forgotten(buffers: list[BufferInfo], statements: tuple[Statement, ...]) -> None:
    assert "reduction-cut-short" not in kinds(kernel(buffers, *statements))
