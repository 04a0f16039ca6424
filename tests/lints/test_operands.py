from __future__ import annotations

import dataclasses

import pytest
from lint_kernels import buffer, kernel, kinds, only, op, whole

from triage.model import KernelRecord, Place, Statement, TileOp


def gemm(
    dtype: str = "float16",
    scopes: tuple[str, str, str] = ("shared.dyn", "shared.dyn", "local.fragment"),
    **more: object,
) -> KernelRecord:
    a, b = buffer("a", (64, 64), scopes[0], dtype, 6), buffer("b", (64, 64), scopes[1], dtype, 7)
    c = buffer("c", (64, 64), scopes[2], line=8)
    ready = [op("fill", whole(of, "write")) for of in (a, b, c) if of.scope != "global"]
    product = op("gemm", whole(a, "read"), whole(b, "read"), whole(c, "readwrite"), line=12)
    return kernel([a, b, c], *ready, product, **more)


def test_fp8_needs_tensor_cores_that_have_it() -> None:
    hazard = only(gemm("float8_e4m3fn"), "fp8-gemm-unsupported", "sm_80")
    assert hazard.at == Place("kernel.py", 12) and hazard.fields["dtype"] == "float8_e4m3fn"
    assert hazard.labels[0].line == 6


@pytest.mark.parametrize(
    ("dtype", "arch"), [("float8_e4m3fn", "sm_89"), ("float8_e4m3fn", "sm_90a"), ("float16", "sm_80")]
)
def test_what_the_tensor_cores_take(dtype: str, arch: str) -> None:
    assert kinds(gemm(dtype), arch) == []


def test_before_mma_tilelang_multiplies_without_tensor_cores() -> None:
    assert kinds(gemm("float8_e4m3fn"), "sm_75") == []


@pytest.mark.parametrize(
    ("scopes", "operand"),
    [
        (("global", "shared.dyn", "local.fragment"), "A"),
        (("local.fragment", "global", "local.fragment"), "B"),
        (("shared.dyn", "shared.dyn", "shared.dyn"), "C"),
        (("shared.dyn", "shared.dyn", "global"), "C"),
    ],
)
def test_operands_no_instruction_reads(scopes: tuple[str, str, str], operand: str) -> None:
    hazard = only(gemm(scopes=scopes), "gemm-operand-scope")
    assert hazard.fields["operand"] == operand and hazard.at == Place("kernel.py", 12)
    assert kinds(gemm(scopes=scopes, target={"kind": "c"})) == []


def test_an_accumulator_in_tensor_memory() -> None:
    assert kinds(gemm(scopes=("shared.dyn", "shared.dyn", "shared.tmem")), "sm_100a") == []


def narrow_gemm(
    a: str = "int8", b: str = "int8", c: str = "int32", scope: str = "shared.dyn", **params: object
) -> Statement:
    values = {"transpose_A": False, "transpose_B": True, "M": 64, "N": 128, "K": 64, **params}
    return dataclasses.replace(
        op("gemm", line=9), op=TileOp("gemm", (f"{a}_{scope}[…]", f"{b}_{scope}[…]", f"{c}_acc[…]"), values)
    )


NARROW = [
    buffer(f"{dtype}_{scope}", (128, 128), scope, dtype, line=4)
    for dtype in ("float8_e4m3fn", "int8", "float16")
    for scope in ("shared.dyn", "local.fragment")
] + [buffer(f"{dtype}_acc", (64, 128), "local.fragment", dtype) for dtype in ("float32", "int32")]


@pytest.mark.parametrize(("a", "c"), [("float8_e4m3fn", "float32"), ("int8", "int32")])
@pytest.mark.parametrize(("wrong", "role"), [({"transpose_B": False}, "B"), ({"transpose_A": True}, "A")])
def test_an_operand_across_k(a: str, c: str, wrong: dict[str, bool], role: str) -> None:
    hazard = only(kernel(NARROW, narrow_gemm(a, a, c, **wrong)), "gemm-operand-not-k-major")
    assert hazard.at == Place("kernel.py", 9) and hazard.labels[0].line == 4
    assert hazard.fields == {"operand": role, "buffer": f"{a}_shared.dyn", "dtype": a, "arch": "sm_90"}


@pytest.mark.parametrize(
    "record",
    [
        kernel(NARROW, narrow_gemm()),
        kernel(NARROW, narrow_gemm("float16", "float16", "float32", transpose_B=False)),  # a transposed form exists
        kernel(NARROW, narrow_gemm(transpose_B=False, M=32)),  # too few rows for it in any case
        kernel(NARROW, narrow_gemm(transpose_B=False, K=48)),
        kernel(NARROW, narrow_gemm(transpose_B=False), threads=(64,)),
        kernel(NARROW, narrow_gemm(transpose_B=False, scope="local.fragment")),
        kernel(NARROW, narrow_gemm(c="float32", transpose_B=False)),
        kernel(NARROW, narrow_gemm(transpose_B="flag")),
        kernel(NARROW, narrow_gemm(transpose_B=False), pass_configs={"tl.disable_wgmma": True}),
    ],
)
def test_gemms_that_lose_nothing(record: KernelRecord) -> None:
    assert kinds(record) == []


def test_only_hopper_and_only_if_the_source_says_so() -> None:
    record = kernel(NARROW, narrow_gemm(transpose_B=False))
    assert kinds(record, "sm_80") == [] and kinds(record, source="tl::wgmma_ss<…>(…)") == []
    assert kinds(record, source="tl::mma_sync<…>(…)") == ["gemm-operand-not-k-major"]
