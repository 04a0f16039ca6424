from __future__ import annotations

import pytest
from lint_kernels import buffer, kernel, kinds, only, op, whole

from triage.model import KernelRecord, Place


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
