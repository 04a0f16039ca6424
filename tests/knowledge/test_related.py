"""The lines that an accused line works with: where its operands were made, where a loop's variable got out."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.knowledge.related import MOST_OPERANDS, Related, find_escapes, find_expansions, find_operands

KERNEL = textwrap.dedent(
    """\
    def make(n, dtype):
        @T.prim_func
        def main(P: T.Tensor((n, n), dtype), Q: T.Tensor[n, dtype], idle):
            with T.Kernel(1) as b:
                left = T.alloc_shared((64, 32), dtype)
                right = T.alloc_shared(
                    (32, 64), dtype)
                total = T.alloc_fragment((64, 64), "float32")
                twice = T.alloc_shared((64, 32), dtype)
                for k in T.serial(4):
                    twice = left
                    T.copy(P[0, k * 32], left)
                    T.gemm(left, right, C=total)
                    T.copy(idle, twice)
                    T.copy(Q, b)
                    print(left)
                T.gemm(
                    left[0:64, 0:32], other(right), total)
    """
)


def lines(found: list[Related]) -> list[tuple[int, str]]:
    return [(one.line, one.text) for one in found]


def test_operands_are_told_where_they_were_made() -> None:
    found = find_operands(KERNEL, 13, "")
    assert lines(found) == [
        (5, "left is allocated here"),
        (6, "right is allocated here"),
        (8, "total is allocated here"),
    ]
    assert lines(find_operands(KERNEL, 12, "")) == [(3, "P is declared here"), (5, "left is allocated here")]
    assert lines(find_operands(KERNEL, 18, "")) == [(5, "left is allocated here"), (8, "total is allocated here")]


def test_what_the_error_names_comes_first() -> None:
    assert [one.line for one in find_operands(KERNEL, 13, "layout of `total` and of left2")] == [8, 5, 6]


@pytest.mark.parametrize(("line", "told"), [(14, []), (15, [3]), (16, []), (10, []), (99, []), (0, [])])
def test_only_buffers_that_are_made_once_and_only_of_tile_operators(line: int, told: list[int]) -> None:
    assert [one.line for one in find_operands(KERNEL, line, "")] == told


def test_a_tensor_can_be_declared_in_the_body() -> None:
    source = "@tilelang.jit\ndef f(A, n):\n    A: T.Tensor((n,), 'float16')\n    B = T.empty((n,), 'float16')\n    T.copy(A, B)\n"
    assert lines(find_operands(source, 5, "")) == [(3, "A is declared here"), (4, "B is allocated here")]
    assert find_operands(source.replace("T.empty", "share"), 5, "") == find_operands(source, 5, "")[:1]


def test_an_inner_function_sees_the_buffers_around_it_but_for_those_it_names_itself() -> None:
    source = textwrap.dedent(
        """\
        def main():
            a = T.alloc_shared((4,), "float16")
            b = T.alloc_shared((4,), "float16")
            @T.macro
            def step(b):
                T.copy(a, b)
        """
    )
    assert lines(find_operands(source, 6, "")) == [(2, "a is allocated here")]


def test_no_more_than_a_few_operands() -> None:
    source = "def f():\n" + "".join(f"    b{n} = T.alloc_local((1,), 'int8')\n" for n in range(9))
    source += f"    T.copy({', '.join(f'b{n}' for n in range(9))})\n"
    assert len(find_operands(source, 11, "")) == MOST_OPERANDS


SUMS = textwrap.dedent(
    """\
    def main(A, B, n):
        for t in T.Parallel(64):
            total = 0.0
            count = 0
            for m in T.serial(n):
                value = A[m, t]
                total = total + value * value
                count += 1
            B[t] = T.sqrt(
                total) + count
            for m in T.serial(n):
                B[m] = total
    """
)


def test_a_value_that_takes_the_variable_out_of_its_loop() -> None:
    told = "In PrimFunc main variables (m, n) are used, but are not passed in as API arguments"
    assert lines(find_escapes(SUMS, 10, told)) == [(7, "total takes m out of its loop here")]
    assert find_escapes(SUMS, 7, told) == [], "the loop has not ended there"
    assert find_escapes(SUMS, 10, "Variable k is used") == find_escapes(SUMS, 10, "m is used") == []
    assert lines(find_escapes(SUMS, 9, "Variable m is used")) == [(7, "total takes m out of its loop here")]


@given(st.text(max_size=200), st.integers(-3, 30), st.text(max_size=20))
def test_any_text_is_taken(source: str, line: int, told: str) -> None:
    assert find_operands(source, line, told) == find_escapes(source, line, told) == []


@given(st.lists(st.sampled_from([*KERNEL.splitlines(), *SUMS.splitlines()]), max_size=25), st.integers(1, 25))
def test_a_line_lies_in_the_source(some: list[str], line: int) -> None:
    for one in (*find_operands("\n".join(some), line, ""), *find_escapes("\n".join(some), line, "variables (m, t, k)")):
        assert 1 <= one.line <= len(some)


MACROS = """\
@T.macro
def load(dst, src):
    T.copy(src, dst)

@T.macro()
def step(a, b, c):
    T.gemm(a, b, c)

def plain(a):
    T.clear(a)

@T.prim_func
def main():
    load(A, B)
    step(A, B, C)
    step(A, D, C)
    plain(C)
"""


def test_the_calls_of_a_macro_are_named_where_it_fails() -> None:
    assert lines(find_expansions(MACROS, 3)) == [(14, "load is called here")]
    assert lines(find_expansions(MACROS, 7)) == [
        (15, "step is called here, one of 2 calls"),
        (16, "step is called here, one of 2 calls"),
    ]
    assert find_expansions(MACROS, 10) == find_expansions(MACROS, 15) == find_expansions("no python(", 1) == []
