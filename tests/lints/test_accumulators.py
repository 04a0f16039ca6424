from __future__ import annotations

import dataclasses

import pytest
from lint_kernels import FILE, buffer, kernel, kinds, loop, only, op, region, store, whole

from triage.model import Place, Statement, TileOp

X = buffer("X", (16, 8192), "global", "float16")
A, B = buffer("a", (128, 64), "shared.dyn", "float16"), buffer("b", (64, 128), "shared.dyn", "float16")
TERM = region("X", "read", (0, 15, 1), (0, 8191, 1))


def accumulator(dtype: str = "float16", scope: str = "local.fragment") -> tuple[Statement, Statement, list]:  # type: ignore[type-arg]
    """A clear of the accumulator, a gemm of 64 terms into it, and the buffers."""
    c = buffer("c", (128, 128), scope, dtype, line=3)
    filled = [op("fill", whole(A, "write")), op("fill", whole(B, "write")), op("fill", whole(c, "write"))]
    gemm = op("gemm", whole(A, "read"), whole(B, "read"), whole(c, "readwrite"), K=64, clear_accum=False, line=12)
    named = dataclasses.replace(gemm, op=TileOp("gemm", ("a[0]", "b[0]", "c[0]"), gemm.op.params if gemm.op else {}))
    return Statement("0", "block", body=tuple(filled)), named, [A, B, c]


def test_a_long_gemm_in_half_precision() -> None:
    clear, gemm, buffers = accumulator()
    hazard = only(kernel(buffers, clear, loop("pipelined", 16, gemm)), "narrow-accumulator")
    assert hazard.at == Place(FILE, 12) and hazard.labels[0].line == 3 and hazard.certainty == "certain"
    assert hazard.fields == {"buffer": "c", "dtype": "float16", "how": "gemm", "terms": 1024, "length": "64 × 16"}
    unknown = only(kernel(buffers, clear, loop("pipelined", "n", gemm)), "narrow-accumulator")
    assert (unknown.fields["terms"], unknown.fields["length"], unknown.certainty) == (None, "64 × n", "likely")


def test_sums_that_are_short_or_start_anew() -> None:
    clear, gemm, buffers = accumulator()
    again = op("fill", whole(buffers[2], "write"))
    clearing = dataclasses.replace(gemm, op=dataclasses.replace(gemm.op, params={"K": 64, "clear_accum": True}))  # type: ignore[type-var]
    for body in (
        loop("pipelined", 15, gemm),
        loop("serial", 16, again, loop("pipelined", 8, gemm)),
        loop("serial", 64, clearing),
        loop("parallel", 64, gemm),
        Statement("w", "while", Place(FILE, 9), "while go", condition="go", body=(gemm,)),
    ):
        assert kinds(kernel(buffers, clear, body)) == []
    clear, gemm, buffers = accumulator("float32")
    assert kinds(kernel(buffers, clear, loop("pipelined", "n", gemm))) == []


def adding(text: str, *index: tuple[int, int, int], name: str = "s") -> Statement:
    written = region(name, "write", *index)
    read = dataclasses.replace(written, mode="read")
    return dataclasses.replace(store(TERM, read, written, line=14), text=text)


@pytest.mark.parametrize(
    "text",
    ["s[0] = s[0] + X[i, k]", "s[0] = X[i, k] + s[0]", "s[0] = float16(float32(s[0]) + float32(X[i, k]) * 2.0)"],
)
@pytest.mark.parametrize(("dtype", "fewest"), [("float16", 1024), ("bfloat16", 128)])
def test_a_long_loop(text: str, dtype: str, fewest: int) -> None:
    s = buffer("s", (1,), "local", dtype)
    start = store(region("s", "write", (0, 0, 1)))
    body = adding(text, (0, 0, 1))
    assert only(kernel([X, s], start, loop("serial", fewest, body)), "narrow-accumulator").fields["terms"] == fewest
    assert kinds(kernel([X, s], start, loop("serial", fewest - 1, body))) == []


@pytest.mark.parametrize("text", ["s[0] = s[0] * X[i, k]", "s[0] = X[i, k]", "s[0] = max(s[0], X[i, k])"])
def test_what_is_no_sum(text: str) -> None:
    s = buffer("s", (1,), "local", "float16")
    assert (
        kinds(kernel([X, s], store(region("s", "write", (0, 0, 1))), loop("serial", 8192, adding(text, (0, 0, 1)))))
        == []
    )


def test_a_loop_over_elements() -> None:
    s = buffer("s", (8192,), "local", "float16")
    body = adding("s[i] = s[i] + X[i, k]", (0, 8191, 1))
    assert kinds(kernel([X, s], op("fill", whole(s, "write")), loop("serial", 8192, body))) == []
