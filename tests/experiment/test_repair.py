"""Edits of kernels: each is Python, changes one statement of a kernel, and the likely ones come first."""

from __future__ import annotations

import ast
import difflib
import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import one_in

from triage.experiment.repair_search import Repaired, Search, _vanished
from triage.experiment.repairs import KINDS, MOVABLE, SYNTHETIC, Edit, edits, further_edits, host_edits, other_sizes
from triage.experiment.repairs.edit import PAIRED
from triage.experiment.repairs.parts import Statements
from triage.experiment.screen import Screened
from triage.experiment.scripts import Candidate
from triage.experiment.twin import Compared, TwinRun
from triage.model import Place
from triage.tools.repair_statements import _hazards

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


@functools.cache
def put_in(source: str, first: int, last: int) -> frozenset[str]:
    """All lines that edits of the kernels in these lines put in."""
    return frozenset(new for edit in edits(source, range(first, last)) for new in changed(edit, source))


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
    assert edits(GEMM, LINES, ("scaled",))[0].kind in ("scale", MOVABLE)
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


LOOPS = """
def make(M, N, K, BM, BN, BK):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), V: T.Tensor((K,), "float16"), Bias: T.Tensor((N,), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(M // BM) as bx:
            a = T.alloc_shared((BM, BK), "float16")
            acc = T.alloc_fragment((BM, BN), "float32")
            part = T.alloc_fragment((BM,), "float32")
            for tile in T.serial(N // BN):
                for ko in T.Pipelined(K // BK):
                    T.copy(A[bx * BM, 0], a)
                    T.copy(V[0:BK], part)
                    T.gemm(a, a, acc)
                    T.atomic_add(C[bx, 0], part)
                T.copy(acc, C[bx * BM, tile * BN])
            for i, j in T.Parallel(BM, BN):
                C[bx * BM + i, j] = acc[i, j] + part[i] * 0.5
"""


@pytest.mark.parametrize(
    "line",
    [
        "T.copy(A[bx * BM, ko * BK], a)",
        "T.copy(V[ko * BK:ko * BK + BK], part)",
        "C[bx * BM + i, j] = (acc[i, j] + part[i] * 0.5) + Bias[j]",
        "C[bx * BM + i, j] = acc[i, j] + (part[i])",
        "T.atomic_add(C[bx * BM, tile * BN], acc)",
        "with T.Kernel(T.ceildiv(M, BM)) as bx:",
    ],
)
def test_so_are_slips_about_loops_blocks_and_tensors(line: str) -> None:
    assert line in [new for edit in edits(LOOPS, range(4, 19)) for new in changed(edit, LOOPS)]


def test_a_clear_can_be_missing_before_any_loop_around_the_sum() -> None:
    texts = [edit.apply(LOOPS) for edit in edits(LOOPS, range(4, 19)) if "T.clear(acc)" in edit.says]
    behind = {text.split("T.clear(acc)\n")[1].split("\n")[0].strip() for text in texts}
    assert behind == {"T.gemm(a, a, acc)", "for ko in T.Pipelined(K // BK):", "for tile in T.serial(N // BN):"}


PARTS = """
SHARE = 448.0


def make(M, N, K, splits, group, pixels, stride, pad, bm=64, bn=64, bk=32):
    share = K // splits

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), Place: T.Tensor((M,), "int32"),
        Mean: T.Tensor((M,), "float32"), C: T.Tensor((splits, M, N), "float32"),
    ):
        with T.Kernel(N // bn, M // bm, splits) as (bx, by, bz):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bn, bk), "float16")
            x = T.alloc_fragment((bm, bn), "float32")
            y = T.alloc_fragment((bm, bn), "float32")
            top = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            where = T.alloc_fragment((bm,), "int32")
            T.clear(x)
            for ko in T.serial(share // bk):
                T.copy(A[by * bm, bz * share + ko * bk], a)
                T.copy(B[bx * bn, ko * bk], b)
                T.gemm(a, b, x)
            T.copy(B[bx * bn, (bz + ko) * bk], b)
            for c in T.serial(N // bn):
                T.copy(A[by * bm, c * bk], a)
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(bm, bn):
                    x[i, j] = T.exp(x[i, j] - top[i]) * 0.5 - y[i, j]
                T.reduce_sum(x, total, dim=1)
                for i in T.Parallel(bm):
                    where[i] = c
            for i, j in T.Parallel(bm, bn):
                if i < M:
                    y[i, j] = T.exp(y[i, j]) * 0.5 / pixels
            for i, j in T.Parallel(bm, bn):
                y[i, j] = y[i, j] / (group * pixels) + x[i, j] * x[i, j]
                C[0, by * bm + i + j, bx * bn + j] = T.log2(total[i])

    return main


def reference(a):
    return a / 127.5 / 0.25
"""


@pytest.mark.parametrize(
    "line",
    [
        "T.copy(B[bx * bn, bz * share + ko * bk], b)",  # a term that a sibling's index has
        "T.copy(B[bx * bn, (bz + ko * bk)], b)",  # grouped otherwise
        "x[i, j] = T.exp(x[i, j] - top[i]) * (0.5 - y[i, j])",
        "if by * bm + i < M:",
        "y[i, j] = T.exp((y[i, j] - top[i])) * 0.5 / pixels",  # a maximum that is taken off elsewhere
        "y[i, j] = T.exp(y[i, j]) * 0.5 / (group * pixels)",  # a factor of the divisor
        "y[i, j] = y[i, j] / (group * pixels) + y[i, j] * y[i, j]",  # another buffer, in both places
        "C[bz, by * bm + i + j, bx * bn + j] = T.log2(total[i])",
        "C[0, (by * bm) * stride + i + j, bx * bn + j] = T.log2(total[i])",
        "C[0, by * bm + i + j - pad, bx * bn + j] = T.log2(total[i])",
        "C[0, by * bm + i + j, bx * bn + j] = (T.log2(total[i])) + top[i]",
        "C[0, by * bm + i + j, bx * bn + j] = T.log2(total[i] / bn)",  # a mean
        "y[i, j] = T.exp(y[i, j]) * 0.25 / pixels",  # a number of the reference
        "share = ((K + splits - 1) // splits)",
    ],
)
def test_what_is_missing_is_taken_from_other_statements(line: str) -> None:
    assert line in put_in(PARTS, 5, 46)


MORE_PARTS = """
LOG2E = 1.44269504


def make(M, N, heads, dil, pad, bm=32, bn=32):
    @T.prim_func
    def main(
        Q: T.Tensor((M, N), "int8"), X: T.Tensor((M, N), "float32"), S: T.Tensor((heads,), "float32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // bn, M // bm, heads) as (bx, by, h):
            x = T.alloc_fragment((bm, bn), "float32")
            y = T.alloc_fragment((bm, bn), "float32")
            top = T.alloc_fragment((bm,), "float32")
            new = T.alloc_fragment((bm,), "float32")
            part = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            for c in T.serial(N // bn):
                row = c // 3
                column = c % 3
                at = by * bm + column - pad
                T.copy(top, new)
                T.reduce_max(x, new, dim=1, clear=False)
                for i in T.Parallel(bm):
                    total[i] = total[i] + part[i]
                T.gemm(x, y, x, transpose_B=True)
                for i, j in T.Parallel(bm, bn):
                    x[i, j] = x[i, j] * LOG2E + S[h] * part[i]
                    y[i, j] = (T.cast(Q[i, j // 2], "int32") >> (j % 2)) & 15
                    Y[i, j] = T.cast(X[i, j] / 0.5, "int32") + x[i + 1, j] - y[i, j + 1]

    return main
"""


def test_a_bound_that_is_one_too_few_becomes_what_it_is_taken_from_first() -> None:
    source = GEMM.replace("T.Pipelined(K // BK,", "T.Pipelined(K - 1,")
    says = [edit.says for edit in edits(source, LINES) if edit.says.startswith("`K - 1` as")]
    assert says[0] == "`K - 1` as `(K)`"


@pytest.mark.parametrize(
    "line",
    [
        "at = by * bm + column * dil - pad",  # a dilation, of a counter that is computed
        "total[i] = total[i] * T.exp(top[i] - new[i]) + part[i]",  # what a running maximum has grown
        "T.gemm(x, y, x, transpose_A=True)",  # the flag of the other operand
        "x[i, j] = x[i, j] * LOG2E + LOG2E * (S[h] * part[i])",  # the unit of the other summand
        'y[i, j] = (T.cast(Q[i, j // 2], "int32") >> (4 * (j % 2))) & 15',  # nibbles
        'Y[i, j] = T.cast(T.floor(X[i, j] / 0.5), "int32") + x[i + 1, j] - y[i, j + 1]',  # truncated
        'Y[i, j] = T.cast(X[i, j] / 0.5, "int32") + y[i, j + 1] - y[i, j + 1]',  # an element that is read anyway
    ],
)
def test_so_are_units_rescales_and_elements(line: str) -> None:
    assert line in [new for edit in edits(MORE_PARTS, range(5, 32)) for new in changed(edit, MORE_PARTS)]


PARTED = (["term"], ["whole"], ["elsewhere"], ["value"])


def test_no_statement_is_given_counters_of_loops_that_it_is_not_in() -> None:
    before = PARTS.index("T.clear(x)"), PARTS.index("for c in")
    for edit in (edit for edit in edits(PARTS, range(5, 46)) if edit.family.split()[:1] in PARTED):
        for start, _, new in edit.changes:
            used = {node.id for node in ast.walk(ast.parse(new, mode="eval")) if isinstance(node, ast.Name)}
            assert "c" not in used or not before[0] < start < before[1]


def test_few_edits_of_one_sort_do_not_wait_for_many_of_another() -> None:
    said = [(edit.line, edit.says) for edit in edits(PARTS, range(5, 46))]
    line = 1 + PARTS.splitlines().index("                T.copy(B[bx * bn, ko * bk], b)")
    missing = (line, "`ko * bk` as `bz * share + ko * bk`")
    assert said.index(missing) < len(said) / 4


def test_the_edits_stay_few_enough_to_be_tried() -> None:
    assert len(edits(PARTS, range(5, 46))) < 50 * len(range(5, 46))


TENSORS_IN_BODY = """
@tilelang.jit
def rotate(x, cos, block=32):
    length, dim = T.const("length, dim")
    x: T.Tensor((length, dim), T.float32)
    cos: T.Tensor((length, dim), T.float32)
    y = T.empty((length, dim), T.float32)
    with T.Kernel(T.ceildiv(length, block)) as bx:
        for i, j in T.Parallel(block, dim):
            y[i, j] = x[bx * block + i, j] * cos[bx * block + i, j] / block
    return y
"""


def test_tensors_that_the_body_declares_are_no_sizes_and_take_parts_too() -> None:
    lines = [line for edit in edits(TENSORS_IN_BODY, [9]) for line in changed(edit, TENSORS_IN_BODY)]
    assert "y[bx * block + i, j] = x[bx * block + i, j] * cos[bx * block + i, j] / block" in lines
    assert "y[i, j] = x[bx * block + i, j] * cos[bx * block + i, j] / dim" in lines
    assert not {"`block` as `x`", "`block` as `cos`"} & {edit.says for edit in edits(TENSORS_IN_BODY, [9])}


def test_so_are_those_that_an_annotation_with_brackets_declares() -> None:
    source = TENSORS_IN_BODY.replace("T.Tensor((length, dim), T.float32)", "T.Tensor[[length, dim], T.float32]")
    assert [edit.says for edit in edits(source, [9])] == [edit.says for edit in edits(TENSORS_IN_BODY, [9])]


MASKS = """
@tilelang.jit
def shifted(x, zero: int, block=32):
    M, K = T.const("M, K")
    x: T.Tensor[[M, K], T.int8]
    y = T.empty((M, K), T.float32)
    with T.Kernel(T.ceildiv(M, block)) as bx:
        tile = T.alloc_shared((block, block), T.int8)
        wide = T.alloc_fragment((block, block), T.float32)
        top = T.alloc_fragment((block,), T.float32)
        place = T.alloc_fragment((block,), T.int32)
        for k in T.serial(T.ceildiv(K, block)):
            T.copy(x[bx * block, k * block], tile)
            for i, j in T.Parallel(block, block):
                wide[i, j] = T.cast(tile[i, j], T.float32) - zero
            for i, j in T.Parallel(block, block):
                wide[i, j] = T.if_then_else(wide[i, j] == top[i], 0.0, wide[i, j])
                wide[i, j] = T.exp(wide[i, j])
    return y
"""


def test_what_counts_may_end_with_the_tensor_or_be_the_one_element_that_was_found() -> None:
    lines = {line for edit in edits(MASKS, range(8, 17)) for line in changed(edit, MASKS)}
    assert "wide[i, j] = T.if_then_else((k * block) + j < K, T.cast(tile[i, j], T.float32) - zero, 0)" in lines
    assert "wide[i, j] = T.if_then_else((bx * block) + i < M, T.cast(tile[i, j], T.float32) - zero, 0)" in lines
    assert "wide[i, j] = T.if_then_else(j == place[i], 0.0, wide[i, j])" in lines
    assert "wide[i, j] = T.if_then_else(wide[i, j] == top[i], 0.0, T.exp(wide[i, j]))" in lines


ANOTHER = """
import tilelang.language as T

LANES = 4


@T.macro
def unpack(words, tile, block):
    for i, j in T.Parallel(block, block):
        k = i * 2
        n = j * 2
        tile[i, j] = (words[k, n] >> (k % 8)) & 0xF


def propagate(V, C, count):
    @T.prim_func
    def main(P: T.Tensor((V,), "int32"), X: T.Tensor((V, C), "float32"), Y: T.Tensor((V, C), "float32")):
        with T.Kernel(V) as v:
            tile = T.alloc_shared((32, 32), "int32")
            sums = T.alloc_fragment((32,), "float32")
            val = T.alloc_shared((2, 32), "float32")
            seen = T.alloc_shared((2, 32), "int32")
            unpack(X, tile, 32)
            for f in T.serial(C):
                deg = P[v + 1] - P[v]
                scale = T.rsqrt(T.cast(deg + 1, "float32"))
                u = P[v] + f
                w = X[v, f] * 0.5
                h = X[u, f] * 0.5
                Y[v, f] = scale * X[u, f]
                Y[v, f] = T.max(w * h, 0.0)
                Y[v, f] = T.max(w, 0.0) * T.max(h, 0.0)
                Y[v, f] = w * T.rsqrt(h + 1e-6)
                Y[v, f] = w / count
                Y[v, f] = X[v, f + 1] * T.exp(sums[f])
                sums[f] = w * sums[C - 1]
                val[0, f] = T.if_then_else(P[v] == 0, val[1, f], 0.0)
                if P[v] + f < V:
                    Y[v, f] = 0.0 + X[v, f]
                    Y[v, f] = X[v, f] - 128.0
                put(V + f, LANES)

    return main
"""
#: slips that a reader would look for
ALSO = (
    "tile[i, j] = (words[k, n] >> (n % 8)) & 0xF",
    "Y[v, f] = (T.rsqrt(T.cast(P[u + 1] - P[u] + 1, 'float32'))) * X[u, f]",
    "Y[v, f] = (T.max(w, 0.0) * T.max(h, 0.0))",
    "Y[v, f] = T.max(w * h, 0.0)",
    "Y[v, f] = w * (1.0 / (T.sqrt(h) + 1e-6))",
    "Y[v, f] = w / (count - 1)",
    "Y[v, f] = X[v, f + C] * T.exp(sums[f])",
    "Y[v, f] = X[v, f + 1] * T.exp(sums[C - 1] - sums[f])",
    "val[0, f] = T.if_then_else(seen[1, f] == 0, val[1, f], 0.0)",
    "if P[v] + f < P[v + 1]:",
    "Y[v, f] = 0.0 + (X[v, f] - 128)",
    "put(V * LANES + f, LANES)",
)


#: rows of a tile that are tokens and heads, words of packed numbers, and sums of parts
PACKED = """
import tilelang.language as T


def make(N, K, heads, width):
    group = heads // 2

    @T.prim_func
    def main(Q: T.Tensor((N, K), "int32"), X: T.Tensor((N, K), "float32"), Y: T.Tensor((N, K), "float32")):
        with T.Kernel(N) as (bn,):
            tile = T.alloc_shared((32, 32), "float32")
            begin = bn * 8
            level = X[bn, begin]
            for r, c in T.Parallel(32, 32):
                tile[r, c] = X[r // group, c * heads + r % group]
            for r, c in T.Parallel(32, 32):
                seen = c <= N - K + r
                lane = c % 8
                nibble = lane % 4 * 2 + lane // 4
                place = c // width + 16 * (c % width)
                code = (Q[r, c // 8] >> (4 * nibble)) & 15
                Y[r, c] = code * level
    return main
"""
#: slips that a reader would look for there
PACKED_SLIPS = (
    "level = X[bn, 0]",
    "seen = c <= N - K + (r // group)",
    "seen = c <= N - K + (r % group)",
    "nibble = (lane % 2 * 4 + lane // 2)",
    "place = (c % 16 * width + c // 16)",
)


@pytest.mark.parametrize("line", PACKED_SLIPS)
def test_so_are_a_part_of_a_counter_a_permutation_inverted_and_the_first_element(line: str) -> None:
    assert line in put_in(PACKED, 10, 26)


#: taps, ties, chunks, groups of rows, blocks of a list and parts of a sum
SLIPS = """
import tilelang.language as T


def make(N, L, S, H, taps, splits):
    rows = S * H

    @T.prim_func
    def main(X: T.Tensor((N, L), "float32"), Cols: T.Tensor((N,), "int32"), Y: T.Tensor((N, L), "float32")):
        with T.Kernel(N, splits) as (b, sp):
            x = T.alloc_fragment((32, 32), "float32")
            best = T.alloc_fragment((32,), "float32")
            where = T.alloc_fragment((32,), "int32")
            total = T.alloc_fragment((32,), "float32")
            for k in T.serial(taps):
                kb = Cols[k]
                end = T.alloc_var("int32")
                stop = T.min(L, kb + 8)
                digit = T.alloc_local((1,), "int32")
                seen[0] = seen[0] + best[k]
                need[0] = need[0] - seen[0]
                x[0, 0] = T.if_then_else(k < L, 1.0, 0.0)
                for i, j in T.Parallel(32, 32):
                    x[i, j] = x[i, j] * X[b, i + (taps - 1) - k]
                    x[i, j] = T.if_then_else(i >= k * 8 + j, x[i, j], 0.0)
            for k in T.serial(taps):
                for i, j in T.Parallel(32, 32):
                    x[i, j] = X[b, i + k]
            for i, j in T.Parallel(32, 32):
                x[i, j] = T.cast(x[i, j] + 0.5, "int8")
                x[i, j] = T.if_then_else(x[i, j] == best[i], -1e30, x[i, j])
                x[i, j] = T.sqrt(x[i, j]) / total[i]
                x[i, j] = x[i, j] / (1.0 + T.exp(-best[i]))
                x[i, j] = T.min(T.max(x[i, j], 0.0), 255.0) + total[i]
                x[i, j] = best[i] * (total[i] - best[i]) + 0.0 * (S * H)
                x[i, j] = x[i, j] * T.exp(0.5 * (L - i))
                x[i, j] = X[b * 32 // L, j]
                x[i, j] = X[i % S, j]
                Y[b, j] = X[i // H, j]
            for i in T.Parallel(32):
                T.atomic_add(Y[b, i], total[i] + best[i])
    return main
"""
MORE_SLIPS = (
    "x[i, j] = x[i, j] * X[b, i + k]",
    "x[i, j] = X[b, i + (taps - 1 - k)]",
    "x[i, j] = T.if_then_else(i >= kb * 8 + j, x[i, j], 0.0)",
    'x[i, j] = T.cast(T.round(x[i, j]), "int8")',
    'x[i, j] = T.if_then_else(T.cast(j, "int32") == T.cast(where[i], "int32"), -1e30, x[i, j])',
    "x[i, j] = T.sqrt(x[i, j] / total[i])",
    "x[i, j] = x[i, j] * T.exp(0.5 * ((L - i - 1)))",
    "x[i, j] = X[(b * 32 + i) // L, j]",
    "x[i, j] = x[i, j] / (1.0 + T.exp(2.0 * (-best[i])))",
    "x[i, j] = T.min(T.max(x[i, j] + total[i], 0.0), 255.0)",
    "x[i, j] = best[i] * (total[i] - best[i]) * (S * H) + 0.0 * (S * H)",
    "need[0] = need[0] - (seen[0] - best[digit[0]])",
    "need[0] = need[0] - (seen[0] - best[k])",
    "x[0, 0] = T.if_then_else(k < stop, 1.0, 0.0)",
    "x[i, j] = X[(i // H), j]",
    "x[i, j] = X[(i // rows), j]",
    "T.atomic_add(Y[b, i], total[i] + T.if_then_else(sp == 0, best[i], 0))",
)


@pytest.mark.parametrize("line", MORE_SLIPS)
def test_so_are_slips_that_come_with_how_a_kernel_came_to_be(line: str) -> None:
    assert line in put_in(SLIPS, 9, 45)


#: sums kept over tiles, and a split of the work that is no whole number of tiles
RUNNING = """
import tilelang.language as T


def make(M, K, splits, block_K):
    share = T.ceildiv(K, splits)

    @T.prim_func
    def main(X: T.Tensor((M, K), "float32"), Y: T.Tensor((M,), "float32")):
        with T.Kernel(M) as (b,):
            x = T.alloc_shared((32, block_K), "float32")
            for c in T.serial(share):
                for i in T.Parallel(32):
                    fade[i] = T.exp(m_old[i] - m[i])
                    t[i] = t[i] * fade[i] + tile_t[i]
                    s[i] = s[i] * fade[i] + tile_s[i]
    return main
"""


@pytest.mark.parametrize(
    "line",
    [
        "t[i] = (t[i] + s[i] * (m_old[i] - m[i])) * fade[i] + tile_t[i]",
        "share = (T.ceildiv(K, splits) + block_K - 1) // block_K * block_K",
    ],
)
def test_so_are_a_sum_that_moves_with_another_and_shares_of_whole_tiles(line: str) -> None:
    assert line in put_in(RUNNING, 9, 17)


def test_two_statements_that_say_the_same_are_edited_alike_at_once() -> None:
    first, second = (f"                x[i, j] = x[i, j] {sign} best[j] * 0.5\n" for sign in "+-")
    source = SLIPS.replace(
        "            for i in T.Parallel(32):\n",
        f"            for i, j in T.Parallel(32, 32):\n{first}{second}            for i in T.Parallel(32):\n",
    )
    both = {tuple(changed(edit, source)) for edit in edits(source, range(9, 46)) if "next statement" in edit.says}
    assert ("x[i, j] = x[i, j] + best[i] * 0.5", "x[i, j] = x[i, j] - best[i] * 0.5") in both


def test_a_variable_of_whole_numbers_may_be_meant_as_a_bound() -> None:
    assert "x[i, j] = T.if_then_else(i >= end * 8 + j, x[i, j], 0.0)" in put_in(SLIPS, 9, 45)


def test_what_a_name_was_computed_of_is_no_other_index_for_it() -> None:
    """`lane`, `nibble`: with these in the place of `c`, `code` would be read through two permutations."""
    last = next(n for n, text in enumerate(PACKED.splitlines(), 1) if "code * level" in text)
    says = [edit.says for edit in edits(PACKED, range(10, 26)) if edit.line == last]
    assert says and not [one for one in says if one.startswith("`code` as `(Q[r, (")]


@pytest.mark.parametrize("line", ALSO)
def test_so_are_another_index_both_sides_of_a_limit_and_what_a_sum_grew_by(line: str) -> None:
    assert line in put_in(ANOTHER, 5, 44)


def test_memory_that_a_macro_is_given_is_no_size() -> None:
    says = {edit.says for edit in edits(ANOTHER, range(5, 44))}
    assert "`block` as `count`" in says or "`count` as `V`" in says
    assert (
        not {f"`{size}` as `{memory}`" for size in ("block", "count", "V", "C") for memory in ("words", "tile")} & says
    )


PERSISTENT = """
def make(batch, M, N, K):
    @T.prim_func
    def main(A: T.Tensor((batch, M, K), "float16"), C: T.Tensor((batch, M, N), "float32")):
        with T.Kernel(1) as bx:
            acc = T.alloc_fragment((M, N), "float32")
            T.clear(acc)
            T.fill(acc, 1)
            for z in T.serial(batch):
                for k in T.serial(K):
                    T.gemm(a, b, acc)
                T.copy(acc, C[z, 0, 0])
"""


def test_a_clear_that_stands_before_a_loop_and_not_in_it_is_accused_itself() -> None:
    missing = [
        edit
        for edit in edits(PERSISTENT, range(5, 13))
        if edit.says == "with `T.clear(acc)` before the loop of line 10"
    ]
    assert {edit.line for edit in missing} == {8}


RESCALED = """
def make(N, B, D):
    @T.prim_func
    def main(A: T.Tensor((N, B), "float16"), V: T.Tensor((N, D), "float16"), C: T.Tensor((B, D), "float32")):
        with T.Kernel(1) as bx:
            p = T.alloc_shared((B, B), "float16")
            v = T.alloc_shared((B, D), "float16")
            s = T.alloc_fragment((B, B), "float32")
            o = T.alloc_fragment((B, D), "float32")
            total = T.alloc_fragment((B,), "float32")
            shrink = T.alloc_fragment((B,), "float32")
            new = T.alloc_fragment((B,), "float32")
            for k in T.serial(N // B):
                T.clear(s)
                T.gemm(p, p, s)
                T.reduce_sum(s, new, dim=1)
                for i in T.Parallel(B):
                    total[i] = total[i] * shrink[i] + new[i]
                T.gemm(p, v, o)
"""


def test_what_rescales_one_running_sum_is_tried_with_the_others_that_no_loop_begins_anew() -> None:
    said = {(edit.line, edit.says) for edit in edits(RESCALED, range(5, 21)) if "*=" in edit.says}
    assert said == {(19, "with `o[i, j] *= shrink[i]` before it")}


def test_parallel_loops_fit_their_buffers_and_are_never_one_longer() -> None:
    assert not [
        line for edit in edits(LOOPS, range(4, 19)) for line in changed(edit, LOOPS) if "T.Parallel((BM)" in line
    ]


def test_usual_slips_come_before_rare_ones_of_the_same_statement() -> None:
    found = edits(GEMM, LINES)
    for line in {edit.line for edit in found}:
        by_kind: dict[str, list[int]] = {}
        for edit in (edit for edit in found if edit.line == line):
            by_kind.setdefault(edit.kind, []).append(edit.rare)
        for grades in by_kind.values():
            assert grades[0] == min(grades)


def test_kernels_that_did_not_write_what_is_wrong_come_later() -> None:
    two = GEMM + LOOPS
    shift = GEMM.count("\n")
    lines = [*LINES, *(line + shift for line in range(4, 19))]
    first = edits(two, lines, (), [line + shift for line in range(4, 19)])[0]
    assert first.line > shift >= edits(two, lines, (), LINES)[0].line


def test_what_is_missing_somewhere_is_movable() -> None:
    kinds = {edit.kind for edit in edits(LOOPS, range(4, 19)) if "+ Bias[j]" in edit.says}
    assert kinds == {MOVABLE}


def test_so_is_what_is_too_much_in_a_value_but_not_in_an_index_or_a_condition() -> None:
    kinds = {edit.says: edit.kind for source in (GEMM, LOOPS) for edit in edits(source, range(4, 29))}
    assert kinds["`part[i] * 0.5` as `(part[i])`"] == MOVABLE
    assert kinds["`by * BM + i` as `(by * BM)`"] == "offset"
    assert kinds["`bx * BM + i` as `(i)`"] == "offset"


SIZES = """
BLOCK = 64

def make(M, N):
    with T.Kernel(M) as bx:
        M = 100

def main():
    M, N, heads = 200, 256, 8
    seq_len = 1000
    block = 128
"""


def test_other_sizes_keep_what_is_and_what_is_no_multiple_of_a_tile() -> None:
    changes = other_sizes(SIZES)
    text = Edit(1, 1, "bounds", "", changes).apply(SIZES)
    assert "M, N, heads = 328, 512, 8" in text and "seq_len = 1512" in text
    assert "BLOCK = 64" in text and "block = 128" in text and "M = 100" in text


# -------------------------------------------------------------------------------------------- what a search concludes


class Searched(Search):
    """A search whose runs are answered by what is in the text of the copy. Line `n` of the text reads `n`."""

    source = "".join(f"{number}\n" for number in range(1, 6))

    def __init__(
        self,
        agrees: set[str],
        *,
        by_luck: set[str] = frozenset(),
        only_small: set[str] = frozenset(),
        known: Mapping[str, bool] | None = None,
        straying: set[str] = frozenset(),
    ) -> None:
        self.runner, self.candidate = self, Candidate(self.source, twin=())  # type: ignore[assignment]
        self.limit, self.agrees, self.by_luck, self.only_small = 1.0, agrees, by_luck, only_small
        self.runs: list[str] = []
        self.known, self.straying = known or {}, straying

    def run_one(self, candidate: Candidate) -> Candidate:
        self.runs.append(candidate.source)
        return candidate

    def first(self, candidates, wanted, seconds):  # type: ignore[no-untyped-def]
        return next(((c, c) for c in candidates if wanted(self.run_one(c))), None)

    def _screened(self, edits, seconds):  # type: ignore[no-untyped-def]
        known = {edit: self.known[word] for edit in edits for word in self.known if word in edit.changes[0][2]}
        return Screened(len(edits), known, len(edits))

    def _agrees(self, shown) -> bool:  # type: ignore[no-untyped-def]
        new = set(shown.source.split())
        return bool(new & self.agrees) or (bool(new & self.by_luck) and not shown.twin)

    def _also_with_others(self, source: str, edit: Edit) -> bool:
        return self._agrees(Candidate(edit.apply(source), twin=(("seed", 1),)))

    def _strays(self, source: str, edit: Edit) -> bool:
        return bool(set(edit.apply(source).split()) & self.straying)

    def _also_larger(self, source: str, edit: Edit) -> bool:
        return not set(edit.apply(source).split()) & self.only_small


def an_edit(line: int, new: str, kind: str = "bounds", rare: int = 0) -> Edit:
    return Edit(line, line, kind, f"`{line}` as `{new}`", ((2 * line - 2, 2 * line - 1, new),), rare)


EDITS = [an_edit(1, "a"), an_edit(2, "b"), an_edit(1, "c"), an_edit(3, "d", rare=1), an_edit(4, "e", rare=2)]


def search(agrees: set[str], edits: list[Edit] = EDITS, budget: int = 99, **answers: set[str]) -> Repaired:
    """What a search concludes that has time for `budget` runs."""
    searched = Searched(agrees, **answers)
    return searched.run(searched.source, edits, lambda: budget - len(searched.runs))


def test_the_only_statement_that_can_be_repaired_is_accused() -> None:
    found = search({"b"})
    assert found.alone == EDITS[1] and found.settled


def test_of_several_none_is_accused() -> None:
    found = search({"b", "d"})
    assert found.alone is None and {edit.line for edit in found.edits} == {2, 3}
    assert "2 statements" in found.reservation


def test_nobody_is_accused_before_all_usual_edits_of_the_others_were_tried() -> None:
    found = search({"a"}, budget=2)
    assert found.edits == (EDITS[0],) and not found.settled and found.alone is None


def test_where_a_usual_edit_does_rare_ones_of_others_need_not_be_tried() -> None:
    assert search({"a", "e"}).alone == EDITS[0]
    assert search({"e"}).alone == EDITS[4]
    assert search({"e", "d"}).alone == EDITS[3]


def test_what_agrees_with_one_seed_only_is_no_repair() -> None:
    found = search(set(), by_luck={"a"})
    assert not found.edits and found.tried == found.count
    assert search({"c"}, by_luck={"a"}).alone == EDITS[2]


def test_what_fits_the_sizes_of_the_script_only_accuses_nobody() -> None:
    found = search({"b"}, only_small={"b"})
    assert found.edits == (EDITS[1],) and found.alone is None and "sizes" in found.reservation


def test_a_missing_factor_accuses_nobody_unless_something_else_repairs_the_statement_too() -> None:
    missing, other = an_edit(5, "f", MOVABLE), an_edit(5, "g", "operator")
    found = search({"f"}, [missing, other, *EDITS])
    assert found.edits == (missing,) and found.settled and found.alone is None
    assert search({"f", "g"}, [missing, other, *EDITS]).alone == other


def test_an_edit_outside_of_the_kernel_that_does_it_too_acquits_its_statements() -> None:
    found = search({"b", "other"})
    outside = an_edit(5, "other", "outside")
    searched = Searched({"b", "other"})
    assert searched.outside(searched.source, found, [an_edit(4, "no"), outside], lambda: 1.0).outside == outside
    acquitted = searched.outside(searched.source, found, [outside], lambda: 1.0)
    assert acquitted.alone is None and "line 5, outside" in acquitted.reservation
    assert searched.outside(searched.source, found, [an_edit(4, "no")], lambda: 1.0).alone == EDITS[1]
    unlooked = searched.outside(searched.source, found, [outside], lambda: 0.0)
    assert unlooked.alone is None and "no time for all usual changes of the call" in unlooked.reservation


def test_what_is_known_to_fail_is_not_run_and_what_may_do_is_run_first() -> None:
    searched = Searched({"b"}, known={"b": True, "a": False, "c": False})
    found = searched.run(searched.source, EDITS, lambda: 99.0)
    assert found.alone == EDITS[1] and found.settled and found.tried == found.count
    assert [text.split()[1] for text in searched.runs[:1]] == ["b"] and not {"a", "c"} & set("".join(searched.runs))


def test_an_edit_that_goes_beyond_the_ends_of_a_buffer_comes_after_one_that_does_not() -> None:
    found = search({"a", "d"}, straying={"a"})
    assert [edit.line for edit in found.edits] == [3, 1] and found.alone is None and not found.strays
    found = search({"a"}, straying={"a"})
    assert found.edits == (EDITS[0],) and found.alone is None and "beyond the end of a buffer" in found.reservation
    same = search({"a", "c"}, straying={"a"})
    assert same.edits == (EDITS[2],) and same.alone == EDITS[2]


def test_where_only_such_an_edit_will_do_further_ones_are_looked_at() -> None:
    further = [an_edit(5, "f", rare=SYNTHETIC)]
    one = Searched({"a", "f"}, known={"f": True}, straying={"a"})
    assert one.run(one.source, EDITS, lambda: 99.0, further=lambda: further).edits == (further[0],)
    other = Searched({"a", "f"}, known={"f": False}, straying={"a"})
    found = other.run(other.source, EDITS, lambda: 99.0, further=lambda: further)
    assert found.edits == (EDITS[0],) and found.strays


def test_further_edits_are_looked_at_only_where_no_usual_one_will_do_and_accuse_nobody() -> None:
    further = [an_edit(5, "f", rare=SYNTHETIC), an_edit(4, "g", rare=PAIRED)]
    known = {"f": True, "g": True}
    one = Searched({"b", "f"}, known={"f": True})
    assert one.run(one.source, EDITS, lambda: 99.0, further=lambda: further).alone == EDITS[1]
    other = Searched({"f", "g"}, known=known)
    found = other.run(other.source, EDITS, lambda: 99.0, further=lambda: further)
    assert found.edits == (further[0],) and found.settled and found.count == len(EDITS) + len(further)
    assert found.alone is None and "no usual slip" in found.reservation
    nothing = Searched(set(), known={"f": False, "g": False})
    found = nothing.run(nothing.source, EDITS, lambda: 99.0, further=lambda: further)
    assert not found.edits and found.tried == found.count


@pytest.mark.parametrize(
    ("says", "parts"),
    [
        ("`ko` and `bx` exchanged", None),
        ("`K // BK` as `T.ceildiv(K, BK)`", "for ko in T.Pipelined(T.ceildiv(K, BK), num_stages=2):"),
        ("without this statement", "pass"),
        ("with `T.clear(acc)` before it", "T.clear(acc)\nT.gemm(a, b, acc)"),
    ],
)
def test_an_edit_of_statements_is_told_as_their_new_texts(says: str, parts: str | None) -> None:
    statements = Statements(GEMM)
    found = [edit for edit in edits(GEMM, LINES) if edit.says == says]
    told = [part for edit in found for part in statements.parts(edit) or []]
    assert (parts in [part["text"] for part in told]) if parts else not told
    assert all(part["header"] == part["text"].startswith(("for ", "if ")) for part in told)


def test_every_part_of_an_edit_is_what_its_text_says_in_that_line() -> None:
    statements, usual = Statements(GEMM), edits(GEMM, LINES)
    told = 0
    for edit in [*usual, *further_edits(GEMM, LINES, usual)]:
        for part in statements.parts(edit) or []:
            if (
                part.get("header") is False
                and len(edit.changes) == 1
                and edit.apply(GEMM).count("\n") == GEMM.count("\n")
            ):
                line = edit.apply(GEMM).splitlines()[part["line"] - 1]
                assert line.strip() == part["text"]
                told += 1
    assert told > 500


def test_further_edits_are_python_and_no_usual_ones() -> None:
    usual = edits(GEMM, LINES)
    found = further_edits(GEMM, LINES, usual)
    assert {edit.rare for edit in found} == {SYNTHETIC, PAIRED}
    assert not {frozenset(edit.changes) for edit in usual} & {frozenset(edit.changes) for edit in found}
    assert [edit.rare for edit in found] == sorted(edit.rare for edit in found)
    for edit in found[::7]:
        ast.parse(edit.apply(GEMM))
    assert further_edits("def f(:", LINES, []) == []


ROTATION = """
import tilelang.language as T


def make(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((n,), "float32")
            for i in T.Parallel(n):
                x[i] = x[i] * C[i] - Y[i]
                Y[i] = Y[i] * C[i] + x[i]
"""


def test_a_value_that_was_just_replaced_may_be_meant_as_it_was_before() -> None:
    found = [edit for edit in edits(ROTATION, range(5, 13)) if "as it was before" in edit.says]
    assert [(edit.line, edit.says) for edit in found] == [(12, "`x[i]` as it was before line 11")]
    lines = found[0].apply(ROTATION).splitlines()
    assert [line.strip() for line in lines[10:13]] == [
        "value_before = x[i]", "x[i] = x[i] * C[i] - Y[i]", "Y[i] = Y[i] * C[i] + value_before",
    ]  # fmt: skip


ONE = Repaired(edits=(EDITS[0],), settled=True)


@pytest.mark.parametrize(
    ("found", "reservation", "look_at"),
    [
        (Repaired(edits=tuple(EDITS[:2])), "2 statements can be changed", "this statement and the labelled ones"),
        (replace(ONE, doubtful=ONE.edits), "with other sizes it still does not", "the fault may lie in another one"),
        (replace(ONE, derived=True), "not known to be what the kernel wrote", "what the script makes of the kernel's result"),
        (replace(ONE, between=True), "two results are compared with each other", "the fault may lie in another one"),
        (replace(ONE, settled=False), "no time for all usual changes of other statements", "the fault may lie in another one"),
        (replace(ONE, outside=EDITS[1]), "`2` as `b` in line 2, outside of the kernel, does the same", "this statement and the labelled ones"),
        (replace(ONE, looked_outside=False), "no time for all usual changes of the call", "the fault may lie in another one"),
        (replace(ONE, edits=(an_edit(5, "f", MOVABLE),)), "in any statement that the value goes through", "the fault may lie in another one"),
    ],
)  # fmt: skip
def test_each_reservation_is_told_with_where_to_look(found: Repaired, reservation: str, look_at: str) -> None:
    """Labels are spoken of only where there are some: of other statements, or of a change outside."""
    assert found.alone is None and reservation in found.reservation and look_at in found.look_at
    hazards = _hazards(found, "kernel.py", {}, lambda edit: edit.line)
    assert [hazard.kind for hazard in hazards] == ["statements-repaired"]
    assert ("labelled" in str(hazards[0].fields["look_at"])) == bool(hazards[0].labels)


def test_nothing_is_tried_outside_where_no_statement_is_accused() -> None:
    searched = Searched({"a"})
    searched.outside(searched.source, search({"b", "d"}), [an_edit(5, "other")], lambda: 1.0)
    assert not searched.runs


HOST = """
import torch
from kernels import fused

M, N = 4 * 32, 48
torch.manual_seed(3)
q = torch.randn(M, N) - 1.0
k = torch.randn(M, N)


def reference(q, k):
    scores = q @ k.t()
    kept = torch.ones(M, M).tril(diagonal=-1)
    scores = scores.roll(1, dims=0)
    return (scores * kept - 2).softmax(-1).sum(dim=1)


got = fused(k, q)
error = (got - reference(q, k)).abs().max()
torch.testing.assert_close(got, reference(q, k), rtol=1e-2, atol=1e-2)
"""


HOST_TOO = """
import numpy as np
import torch
from kernels import fused


def reference(x, w, edges):
    for i in range(8):
        x[i, :i] = w[i, :i]
    last = np.sort(w, axis=1)[:, 0]
    var = x.var(1, keepdim=True)
    mask = torch.ones_like(x).tril().bool()
    low = torch.tril(x)
    place = torch.bucketize(x, edges, right=False)
    levels = (w * 255).astype(np.int32)
    return np.ascontiguousarray(w)


def test():
    c = torch.zeros(8)
    for step in range(3):
        fused(a, b, c)
    before = a + b
    after = before.relu()
    worst = (c - before).abs().max()
    torch.testing.assert_close(c, before)
"""


@pytest.mark.parametrize(
    "line",
    [
        "x[i, :i + 1] = w[i, :i + 1]",
        "last = np.sort(w, axis=1)[:, -1]",
        "var = x.var(1, keepdim=True, unbiased=False)",
        "mask = torch.ones_like(x).tril((torch.ones_like(x)).shape[-1] - (torch.ones_like(x)).shape[-2]).bool()",
        "low = torch.tril(x, (x).shape[-1] - (x).shape[-2])",
        "place = torch.bucketize(x, edges, right=True)",
        "levels = ((w * 255).round()).astype(np.int32)",
        "return np.ascontiguousarray(w.T)",
        "c.zero_()",
        "worst = (c - after).abs().max()",
        "torch.testing.assert_close(c, after)",
    ],
)
def test_so_are_ends_flags_rounding_state_and_the_wrong_tensor(line: str) -> None:
    assert line in {new for edit in host_edits(HOST_TOO) for new in changed(edit, HOST_TOO)}


@pytest.mark.parametrize(
    "line",
    [
        "scores = q @ k",
        "scores = scores.roll(-(1), dims=0)",
        "kept = torch.ones(M, M).triu(diagonal=-1)",
        "kept = torch.ones(M, M).tril(diagonal=0)",
        "return (scores * kept - 2).log_softmax(-1).sum(dim=1)",
        "return (scores * kept - 2).softmax(0).sum(dim=1)",
        "return (scores * kept - 2).softmax(-1).sum(dim=0)",
        "return (((scores * kept) + 2)).softmax(-1).sum(dim=1)",
        "got = fused(q, k)",
        "got = fused(k, q.mT.contiguous())",
        "torch.testing.assert_close(got, reference(k, q), rtol=1e-2, atol=1e-2)",
    ],
)
def test_usual_slips_of_the_call_and_the_reference_are_among_the_edits_outside(line: str) -> None:
    assert line in {new for edit in host_edits(HOST) for new in changed(edit, HOST)}


def test_sizes_seeds_tolerances_random_inputs_and_computed_errors_stay() -> None:
    lines = [new for edit in host_edits(HOST) for new in changed(edit, HOST)]
    assert not [line for line in lines if line.startswith(("M, N", "torch.manual_seed", "q = ", "k = "))]
    assert {line for line in lines if line.startswith("error = ")} and all(
        line.startswith("error = (got - reference(") and line.endswith(")).abs().max()")
        for line in lines
        if "error = " in line
    )
    assert all("rtol=1e-2, atol=1e-2" in line for line in lines if "assert_close" in line)


def test_of_a_function_around_a_kernel_what_the_kernel_reads_belongs_to_it() -> None:
    source = "def test():\n" + "\n".join(
        f"    {line}"
        for line in (
            "blocks = size() // 32",
            "def main(A: T.Tensor((64,), 'float32')):",
            "    with T.Kernel(blocks) as bx:",
            "        A[bx] = A[bx] + 1.0",
            "compile(main)(a)",
            "assert_close(a, b + 1.0)",
        )
    )
    assert {edit.line for edit in host_edits(source)} == {6, 7}


SCRIPTS = sorted((Path(__file__).resolve().parents[1] / "quality").glob("wrong*/*.py"))


@pytest.mark.parametrize("path", one_in(6, SCRIPTS), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_edit_outside_leaves_every_kernel_as_it_is(path: Path) -> None:
    source = path.read_text("utf-8")
    kernels = [
        ast.dump(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.With) and "T.Kernel" in ast.unparse(node.items[0].context_expr)
    ]
    for edit in host_edits(source):
        after = ast.parse(edit.apply(source))
        assert kernels == [
            ast.dump(node)
            for node in ast.walk(after)
            if isinstance(node, ast.With) and "T.Kernel" in ast.unparse(node.items[0].context_expr)
        ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(GEMM)), st.integers(0, 40))
def test_a_torn_script_never_raises(at: int, length: int) -> None:
    torn = GEMM[:at] + GEMM[at + length :]
    for edit in (*edits(torn, range(1, 60))[:20], *host_edits(torn)):
        edit.apply(torn)


VANISHING = {  # the largest that is expected before and after a change, with which absolute tolerance, and whether that is no agreement
    "as large as before": (3.0, 3.0, 1e-5, False),
    "nothing any more": (3.0, 0.0, 0.0, True),
    "less than the tolerance": (3.0, 1e-6, 1e-5, True),
    "nothing from the start": (0.0, 0.0, 0.0, False),
    "small from the start": (1e-6, 1e-6, 1e-5, False),
}


@pytest.mark.parametrize("case", VANISHING)
def test_results_that_agree_because_they_vanish_do_not_count(case: str) -> None:
    before, after, atol, vanished = VANISHING[case]

    def run(matched: bool, largest: float) -> TwinRun:
        at = Place("kernel.py", 30)
        told = Compared("m1", "torch.testing.assert_close", at, matched, {"rtol": 1e-3, "atol": atol}, largest=largest)
        return TwinRun(1, {}, (told,), 0, (), 0, not matched, "succeeded" if matched else "failed")

    assert _vanished(run(False, before), run(True, after)) is vanished


FREE = """
import tilelang
import tilelang.language as T

LOG2E = 1.44269504


def window(o, size):
    lo = T.max(o * 2 - 1, 0)
    hi = T.min(lo + 3, size)
    return lo, hi


def make(M, N, group, end):
    @T.macro
    def taps(o, to, i):
        to[i] = o * 0.5 - 0.5

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), Where: T.Tensor((M,), "int32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as bx:
            total = T.alloc_fragment((1,), "float32")
            for k in T.serial(T.ceildiv(N, group)):
                for j in T.Parallel(group):
                    part = A[bx, k * group + j] * LOG2E
                    taps(j, total, 0)
                    if j < group:
                        C[bx, (k * group) // end] = T.if_then_else(A[bx, j] == total[0], part, A[bx, k])
                    total[0] += 1.0
                    C[bx, j] = T.cast(A[bx, j] * A[bx, k], "float32") + part
                    lo, hi = window(j, N)
                    at = k * 2 - 1
                    row = Where[bx * 2]
                    if at * M + row < N:
                        total[0] = A[0, row]

    return main
"""
#: what a statement may be meant to say
MEANT = (
    "hi = T.min((o * 2 - 1) + 3, size)",
    "to[i] = T.max(o * 0.5 - 0.5, 0)",
    "for k in T.serial(T.ceildiv(N, end)):",
    "if j < end:",
    "if (at * M + row < N) and (at >= 0 and at < N):",
    "total[0] = A[0, (bx * 2)]",
    "if (j < group) and j == 0:",
    "C[bx, (k * group + j) // end] = T.if_then_else(A[bx, j] == total[0], part, A[bx, k])",
    "C[bx, (k * group) // end] = T.if_then_else(j == Where[bx], part, A[bx, k])",
    "total[0] += T.if_then_else(j < group, 1.0, 0)",
    'C[bx, j] = (T.cast(A[bx, j], "float32") * T.cast(A[bx, k], "float32")) + part',
    'C[bx, j] = T.cast(A[bx, j] * A[bx, k], "float32") + ((part) / LOG2E)',
    'C[bx, j] = ((T.cast(A[bx, j] * A[bx, k], "float32")) * part) + part',
)


def test_what_can_be_put_together_from_the_names_around_is_among_the_further_edits() -> None:
    source = FREE.replace("for k in", "Where[bx] = 0\n            for k in", 1)
    lines = range(17, 40)
    usual = edits(source, lines)
    texts = {
        line.strip()
        for edit in (*usual, *further_edits(source, lines, usual))
        for line in edit.apply(source).splitlines()
    }
    assert [line for line in MEANT if line not in texts] == []


TILES = """
import tilelang.language as T


def build(M, N, K, B):
    @T.prim_func
    def main(X: T.Tensor((M, K), "float32"), W: T.Tensor((M,), "float32"), C: T.Tensor((M, B), "float32")):
        with T.Kernel(M // B, threads=128) as bx:
            x = T.alloc_fragment((B, B), "float32")
            acc = T.alloc_fragment((B, B), "float32")
            total = T.alloc_fragment((B,), "float32")
            fade = T.alloc_fragment((B,), "float32")
            T.clear(acc)
            T.clear(total)
            for k in T.serial(K // B):
                T.copy(X[bx * B, k * B], x)
                for i, j in T.Parallel(B, B):
                    x[i, j] = x[i, j] * 2.0
                T.gemm(x, x, acc)
                for i in T.Parallel(B):
                    total[i] = total[i] * fade[i] + 1.0
                    acc[i, 0] += W[bx * B + i]
            # the end
            for i, j in T.Parallel(B, B):
                acc[i, j] = acc[i, j] / total[i]
            T.copy(acc, C[bx * B, 0])

    return main
"""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (17, "without this loop"),
        (20, "behind the loop of line 15 instead of in it"),
        (24, "in the loop of line 15 instead of behind it"),
        (19, "with `acc[i, j] *= fade[i]` before it"),
        (19, "before line 17"),
    ],
)
def test_loops_over_a_tile_are_moved_left_out_and_put_in(line: int, says: str) -> None:
    (edit,) = [edit for edit in edits(TILES, range(7, 28)) if (edit.line, edit.says) == (line, says)]
    ast.parse(edit.apply(TILES))
    assert Statements(TILES).parts(edit) is not None or says.startswith("in the loop")
