"""What a kernel sums, read from its record: small programs written as records, and what of them is no sum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from triage.experiment.sums import NotASum, Sum, sum_of
from triage.model import Access, BufferInfo, KernelRecord, Launch, Loop, Place, Statement, TileOp

TILE = 32
AT = Place("/home/user/kernels/kernel.py", 7)
A = BufferInfo("A", "global", "float16", (256, 512), param=True)
B = BufferInfo("B", "global", "float16", (512, 256), param=True)
C = BufferInfo("C", "global", "float16", (256, 256), param=True)
ROWS = BufferInfo("R", "global", "float32", (256,), param=True)
a = BufferInfo("a", "shared.dyn", "float16", (TILE, TILE))
b = BufferInfo("b", "shared.dyn", "float16", (TILE, TILE))
x = BufferInfo("x", "local.fragment", "float32", (TILE, TILE))
acc = BufferInfo("acc", "local.fragment", "float32", (TILE, TILE), at=AT)
total = BufferInfo("total", "local.fragment", "float32", (TILE,), at=AT)
out = BufferInfo("out", "shared.dyn", "float16", (TILE, TILE))
BUFFERS = (A, B, C, ROWS, a, b, x, acc, total, out)


def access(buffer: BufferInfo, mode: str) -> Access:
    rank = len(buffer.shape)
    return Access(buffer.name, ("0",) * rank, (TILE,) * rank, (0,) * rank, (0,) * rank, mode=mode)


def copy(source: BufferInfo, to: BufferInfo, name: str = "copy") -> Statement:
    op = TileOp(name, (f"{source.name}[0:32]", f"{to.name}[0:32]"))
    return Statement("", "op", op=op, accesses=(access(source, "read"), access(to, "write")))


def clear(buffer: BufferInfo, value: object = 0) -> Statement:
    op = TileOp("fill", (f"{buffer.name}[0:32]", str(value)), {"value": value})
    return Statement("", "op", op=op, accesses=(access(buffer, "write"),))


def gemm(
    left: BufferInfo = a, right: BufferInfo = b, to: BufferInfo = acc, k: object = TILE, **more: object
) -> Statement:
    names = tuple(f"{buffer.name}[0:32]" for buffer in (left, right, to))
    accesses = (access(left, "read"), access(right, "read"), access(to, "readwrite"))
    return Statement("", "op", op=TileOp("gemm", names, {"K": k, "clear_accum": False, **more}), accesses=accesses)


def reduce(source: BufferInfo = x, to: BufferInfo = total, kind: str = "sum", clear: bool = False) -> Statement:
    op = TileOp("reduce", (f"{source.name}[0:32]", f"{to.name}[0:32]"), {"type": kind, "dim": 1, "clear": clear})
    return Statement("", "op", op=op, accesses=(access(source, "read"), access(to, "write")))


def store(text: str, to: BufferInfo, *read: BufferInfo) -> Statement:
    accesses = (*(access(one, "read") for one in read), access(to, "write"))
    return Statement("", "store", text=text, accesses=accesses)


def loop(extent: int | str, *body: Statement, kind: str = "pipelined") -> Statement:
    return Statement("", "for", loop=Loop("k", kind, 0, extent), body=body)


def numbered(statements: tuple[Statement, ...], before: str = "") -> tuple[Statement, ...]:
    ids = [f"{before}{number}" for number in range(len(statements))]
    return tuple(replace(s, id=i, body=numbered(s.body, f"{i}.")) for i, s in zip(ids, statements, strict=True))


def kernel(*statements: Statement, buffers: tuple[BufferInfo, ...] = BUFFERS) -> KernelRecord:
    return KernelRecord("main", buffers=buffers, launch=Launch(grid=(8, 8)), statements=numbered(statements))


LOADS = (copy(A, a), copy(B, b))
GEMM = Sum("gemm", 512, ("float16", "float16"), ("A", "B"), "float32", "float16", "acc", AT)


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        ((clear(acc), loop(16, *LOADS, gemm()), copy(acc, C)), GEMM),
        ((clear(acc), loop(16, *LOADS, gemm()), copy(acc, out), copy(out, C)), GEMM),
        ((clear(acc, 0.0), loop(16, *LOADS, gemm()), store("C[i, j] = float16(acc[i, j])", C, acc)), GEMM),
        ((loop(4, clear(acc), loop(16, *LOADS, gemm()), copy(acc, C)),), GEMM),  # a persistent kernel
        ((clear(acc), loop(15, *LOADS, gemm()), *LOADS, gemm(), copy(acc, C)), GEMM),  # the tail apart
        ((*LOADS, gemm(clear_accum=True), copy(acc, C)), replace(GEMM, terms=TILE)),
        ((clear(acc), loop(16, *LOADS, gemm()), copy(acc, C, "atomicadd")), replace(GEMM, parts=1)),
        ((clear(acc), store("a[i, j] = if_then_else(i < n, A[i, j], float16(0))", a, A), copy(B, b), gemm(), copy(acc, C)),
         replace(GEMM, terms=TILE)),
    ],
)  # fmt: skip
def test_products(statements, found) -> None:
    assert sum_of(kernel(*statements), "C") == found


def test_products_that_blocks_add_up_by_atomics() -> None:
    program = replace(
        kernel(clear(acc), loop(4, *LOADS, gemm()), copy(acc, C, "atomicadd")), launch=Launch(grid=(8, 8, 4))
    )
    assert sum_of(program, "C") == replace(GEMM, parts=4)


def test_a_narrow_accumulator_and_inputs_that_are_rounded_on_the_way() -> None:
    wide = replace(A, dtype="float32")
    narrow = replace(acc, dtype="float16")
    program = kernel(clear(acc), loop(16, *LOADS, gemm()), copy(acc, C), buffers=(wide, B, C, a, b, narrow))
    assert sum_of(program, "C") == replace(GEMM, accumulator="float16", rounds_inputs=True)


def test_a_sum_that_is_rounded_more_than_its_output_needs_is_not_excused() -> None:
    wide = replace(C, dtype="float32")
    program = kernel(
        clear(acc), loop(16, *LOADS, gemm()), copy(acc, out), copy(out, C), buffers=(A, B, wide, a, b, acc, out)
    )
    with pytest.raises(NotASum, match="rounded to float16 on its way"):
        sum_of(program, "C")


def test_elements() -> None:
    program = kernel(clear(total), loop(8, copy(A, x), reduce(), kind="serial"), copy(total, ROWS))
    found = Sum("elements", 256, ("float32",), ("A",), "float32", "float32", "total", AT)
    assert sum_of(program, "R") == found
    once = kernel(copy(A, x), reduce(clear=True), copy(total, ROWS))
    assert sum_of(once, "R") == replace(found, terms=TILE)


def test_statements_that_add_one_term_after_the_other() -> None:
    inner = loop(TILE, store("total[i] = total[i] + float32(a[i, k]) * x[i, k]", total, total, a, x), kind="serial")
    rows = Statement("", "for", loop=Loop("i", "parallel", 0, TILE), body=(inner,))
    zero = Statement("", "for", loop=Loop("i", "parallel", 0, TILE), body=(store("total[i] = float32(0)", total),))
    loads = (copy(A, a), copy(B, x))
    found = Sum("products", 512, ("float16", "float32"), ("A", "B"), "float32", "float32", "total", AT)
    assert sum_of(kernel(zero, loop(16, *loads, rows, kind="serial"), copy(total, ROWS)), "R") == found
    elements = store("total[i] = total[i] + float32(A[t, i])", total, total, A)
    over = loop(100, Statement("", "for", loop=Loop("i", "parallel", 0, TILE), body=(elements,)), kind="serial")
    assert sum_of(kernel(clear(total), over, copy(total, ROWS)), "R").terms == 100


@pytest.mark.parametrize(
    "text",
    [
        "total[i] = total[i] * float32(A[t, i])",
        "total[i] = total[i] + exp(A[t, i])",
        "total[i] = total[i] + A[t, i] * 0.5",
        "total[i] = total[i] + A[t, i] + A[t, j]",
        "total[i] = total[j] + A[t, i]",
        "total[i] = total[i] - A[t, i]",
        "total[i] = A[t, i] * B[t, i]",
    ],
)
def test_statements_that_compute_more_are_no_sum(text) -> None:
    update = loop(4, store(text, total, total, A), kind="serial")
    with pytest.raises(NotASum):
        sum_of(kernel(clear(total), update, copy(total, ROWS)), "R")


def test_threads_that_add_to_one_element_are_no_sum() -> None:
    update = loop(4, store("total[0] = total[0] + A[k, 0]", total, total, A), kind="parallel")
    with pytest.raises(NotASum, match="how often"):
        sum_of(kernel(clear(total), update, copy(total, ROWS)), "R")


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        ((clear(acc), loop("(bx + 1) * 2", *LOADS, gemm()), copy(acc, C)), "how often"),
        ((clear(acc), loop(4, *LOADS, gemm(), kind="parallel"), copy(acc, C)), "how often"),
        ((clear(acc), *LOADS, gemm(k="K"), copy(acc, C)), "no number|not a number"),
        ((clear(acc), Statement("", "while", body=(*LOADS, gemm())), copy(acc, C)), "while"),
        ((clear(acc, 1), *LOADS, gemm(), copy(acc, C)), "more than a sum"),
        ((clear(acc), *LOADS, gemm(), store("acc[i, j] = acc[i, j] * s", acc, acc), copy(acc, C)), "more than a sum"),
        ((clear(acc), *LOADS, gemm(), store("C[i, j] = exp(acc[i, j])", C, acc)), "no copy"),
        ((clear(acc), *LOADS, gemm(), store("C[i, j] = max(acc[i, j], 0)", C, acc)), "no copy"),
        ((clear(acc), *LOADS, gemm(), copy(acc, C), copy(x, C)), "no copy"),
        ((copy(A, a), copy(a, C)), "is a copy of A"),
        ((clear(acc), store("a[i, j] = exp(A[i, j])", a, A), copy(B, b), gemm(), copy(acc, C)), "computed before"),
        ((clear(acc), copy(A, x), reduce(x, acc, "max"), copy(acc, C)), "no copy"),
        ((), "no copy"),
    ],
)
def test_what_is_no_sum(statements, why) -> None:
    with pytest.raises(NotASum, match=why):
        sum_of(kernel(*statements), "C")


def test_a_parameter_that_is_none() -> None:
    for name in ("acc", "nothing"):
        with pytest.raises(NotASum):
            sum_of(kernel(copy(acc, C)), name)
