"""Edits of kernels: each is Python, changes one statement of a kernel, and the likely ones come first."""

from __future__ import annotations

import ast
import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.experiment.repairs import KINDS, Edit, edits

GEMM = """
import tilelang
import tilelang.language as T
import torch


def reference(a, b):
    return torch.relu(a @ b) * 0.5


def make(M, N, K, BM, BN, BK, scale=0.5):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            a = T.alloc_shared((BM, BK), "float16")
            b = T.alloc_shared((BK, BN), "float16")
            acc = T.alloc_fragment((BM, BN), "float16")
            T.clear(acc)
            for ko in T.Pipelined(K // BK, num_stages=2):
                T.copy(A[by * BM, ko * BK], a)
                T.copy(B[ko * BK, bx * BN], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(BM, BN):
                if by * BM + i < M:
                    acc[i, j] = T.min(acc[i, j], 0)
            T.copy(acc, C[by * BM, bx * BN])

    return main


def test():
    kernel = make(128, 128, 100, 64, 64, 32)
    assert kernel is not None
"""
LINES = range(15, 29)


def changed(edit: Edit, source: str = GEMM) -> list[str]:
    """The lines that an edit puts in."""
    before, after = source.splitlines(), edit.apply(source).splitlines()
    return [line[2:].strip() for line in difflib.ndiff(before, after) if line.startswith("+ ")]


def said(patterns: tuple[str, ...] = ()) -> list[str]:
    return [line for edit in edits(GEMM, LINES, patterns) for line in changed(edit)]


@pytest.mark.parametrize(
    "line",
    [
        "for ko in T.Pipelined(T.ceildiv(K, BK), num_stages=2):",
        "for ko in T.Pipelined((K // BK) + 1, num_stages=2):",
        "T.gemm(a, b, acc, transpose_B=True)",
        'T.fill(acc, -T.infinity("float16"))',
        'acc = T.alloc_fragment((BM, BN), "float32")',
        "acc[i, j] = T.max(acc[i, j], 0)",
        "acc[i, j] = (T.min(acc[i, j], 0)) * scale",
        "acc[j, i] = T.min(acc[i, j], 0)",
        "if by * BM + i <= M:",
        "T.copy(B[bx * BN, ko * BK], b)",
        "T.copy(acc, C[bx * BM, bx * BN])",
        "T.clear(acc)",
    ],
)
def test_the_usual_slips_are_among_the_edits(line: str) -> None:
    assert line in said()


def test_every_edit_is_python_and_changes_the_text() -> None:
    found = edits(GEMM, LINES)
    assert len(found) > 100
    for edit in found:
        text = edit.apply(GEMM)
        assert text != GEMM
        ast.parse(text)
        assert edit.kind in KINDS and edit.line <= edit.end


def test_only_the_kernel_and_its_factory_are_changed() -> None:
    kernel = GEMM.index("def make"), GEMM.index("def test")
    for edit in edits(GEMM, LINES):
        assert all(kernel[0] <= start <= stop <= kernel[1] for start, stop, _ in edit.changes)


def test_no_edit_comes_twice() -> None:
    found = [edit.changes for edit in edits(GEMM, LINES)]
    assert len(found) == len(set(found))


def test_what_is_wrong_at_the_end_asks_for_bounds_first_and_a_factor_for_scales() -> None:
    assert {edit.kind for edit in edits(GEMM, LINES, ("tail-rows",))[:4]} <= {"bounds", "condition", "offset"}
    assert edits(GEMM, LINES, ("scaled",))[0].kind == "scale"
    assert edits(GEMM, LINES, ("transposed",))[0].kind == "transposition"


def test_no_statement_waits_for_all_edits_of_another() -> None:
    order = [edit.line for edit in edits(GEMM, LINES)]
    assert len(set(order[: len(order) // 3])) >= 0.8 * len(set(order))


def test_columns_count_characters_and_not_bytes() -> None:
    source = GEMM.replace("T.clear(acc)", "T.clear(acc)  # größer")
    source = source.replace('"float16") * 1', '"float16")')
    for edit in edits(source.replace("scale=0.5", "maßstab=0.5"), LINES):
        ast.parse(edit.apply(source.replace("scale=0.5", "maßstab=0.5")))


def test_what_does_not_parse_or_holds_no_kernel_has_no_edits() -> None:
    assert edits("def f(:\n", [1]) == []
    assert edits("x = 1\n", [1]) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(GEMM)), st.integers(0, 40))
def test_a_torn_script_never_raises(at: int, length: int) -> None:
    torn = GEMM[:at] + GEMM[at + length :]
    for edit in edits(torn, range(1, 60))[:20]:
        edit.apply(torn)
