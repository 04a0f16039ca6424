"""Sums whose kernel is known, judged by their differences: right ones in every type, and faults down to one lost product."""

from __future__ import annotations

import pytest
from sampling import one_in

from triage.experiment.tolerances import judge
from triage.model import Access, BufferInfo, KernelRecord, Loop, Mismatch, Statement, TileOp, from_json

torch = pytest.importorskip("torch")
SIZE, TILE = 96, 32
TYPES = ["float32", "float16", "bfloat16", "float8_e4m3fn"]


def record(k: int, inputs: str, output: str, accumulator: str = "float32") -> KernelRecord:
    """The record of `C = A @ B`."""

    def buffer(name: str, scope: str, dtype: str, *shape: int) -> BufferInfo:
        return BufferInfo(name, scope, dtype, shape, param=scope == "global")

    def op(name: str, *args: str, **params: object) -> Statement:
        modes = {"copy": ("read", "write"), "fill": ("write",), "gemm": ("read", "read", "readwrite")}[name]
        accesses = tuple(
            Access(a, ("0", "0"), (TILE, TILE), (0, 0), (0, 0), mode=m) for a, m in zip(args, modes, strict=True)
        )
        return Statement(
            f"{name}{args}", "op", op=TileOp(name, tuple(f"{a}[0:32, 0:32]" for a in args), params), accesses=accesses
        )

    buffers = (
        buffer("A", "global", inputs, SIZE, k),
        buffer("B", "global", inputs, k, SIZE),
        buffer("C", "global", output, SIZE, SIZE),
        buffer("a", "shared", inputs, TILE, TILE),
        buffer("b", "shared", inputs, TILE, TILE),
        buffer("c", "local.fragment", accumulator, TILE, TILE),
    )
    body = (op("copy", "A", "a"), op("copy", "B", "b"), op("gemm", "a", "b", "c", K=TILE, clear_accum=False))
    steps = Statement("k", "for", loop=Loop("k", "pipelined", 0, k // TILE), body=body)
    return KernelRecord("main", buffers=buffers, statements=(op("fill", "c", value=0), steps, op("copy", "c", "C")))


def judged(harness, actual, expected, kernel, a, b, output, **options):
    mismatch = harness("mismatch")
    told, _ = mismatch.summarize(actual, expected, actual != expected)
    told["differences"] = mismatch.differences(actual, expected, [getattr(torch, output)])
    sizes = {"A": [a.abs().mean().item(), a.square().mean().sqrt().item()]}
    sizes["B"] = [b.abs().mean().item(), b.square().mean().sqrt().item()]
    return judge(from_json(Mismatch, told), kernel, "C", sizes, tensor_cores=False, **options)


def operands(k: int, positive: bool = False):
    torch.manual_seed(k)
    a, b = torch.randn(SIZE, k).half().float(), torch.randn(k, SIZE).half().float()
    return (a.abs(), b.abs()) if positive else (a, b)


def product(a, b, output: str):
    """The product with float32 sums of tiles, as a kernel makes it, stored in a type."""
    total = torch.zeros(SIZE, SIZE)
    for start in range(0, a.shape[1], TILE):
        total += a[:, start : start + TILE] @ b[start : start + TILE]
    return total.to(getattr(torch, output)).float()


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("reference", ["float64", "float32", "the output's"])
@pytest.mark.parametrize("k", one_in(2, [4096, 256]))
@pytest.mark.parametrize("output", TYPES)
def test_a_right_kernel_is_within_and_the_tolerance_that_is_told_is_enough(
    harness, output, k, reference, positive
) -> None:
    a, b = operands(k, positive)
    a, b = (a / k**0.5, b) if output.startswith("float8") else (a, b)
    expected = a.double() @ b.double()
    if reference != "float64":
        expected = a @ b
    if reference == "the output's":
        expected = expected.to(getattr(torch, output)).float()
    actual = product(a, b, output)
    found = judged(harness, actual, expected, record(k, "float16", output), a, b, output)
    assert found.within is True, found
    assert torch.allclose(actual.double(), expected.double(), rtol=found.allowed.rtol, atol=found.allowed.atol)


def spoil_element(a, b, output):
    result = product(a, b, output)
    result[7, 7] += 0.5
    return result


FAULTS = {
    "the last tile of K": lambda a, b, output: product(a[:, :-TILE], b[:-TILE], output),
    "the last product": lambda a, b, output: product(a[:, :-1], b[:-1], output),
    "a product twice": lambda a, b, output: product(torch.cat([a, a[:, :1]], 1), torch.cat([b, b[:1]]), output),
    "a row of B by another": lambda a, b, output: product(a, torch.cat([b[:1], b[:-1]]), output),
    "a factor": lambda a, b, output: product(a, b * 1.01, output),
    "a summand": lambda a, b, output: (product(a, b, "float32") + 0.1).to(getattr(torch, output)).float(),
    "one element": spoil_element,
    "transposed": lambda a, b, output: product(a, b, output).T,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("k", one_in(2, [256, 4096]))
@pytest.mark.parametrize("output", TYPES)
def test_a_fault_is_not_within(harness, output, k, fault) -> None:
    a, b = operands(k)
    a = a / k**0.5 if output.startswith("float8") else a
    actual = FAULTS[fault](a, b, output)
    for expected in (a.double() @ b.double(), (a @ b).to(getattr(torch, output)).float()):
        found = judged(harness, actual, expected, record(k, "float16", output), a, b, output)
        assert found.within is not True and found.accumulator is None, found


@pytest.mark.parametrize("positive", [False, True])
def test_an_accumulator_of_sixteen_bits(harness, positive) -> None:
    a, b = operands(1024, positive)
    total = torch.zeros(SIZE, SIZE).half()
    for start in range(0, 1024, TILE):
        total += (a[:, start : start + TILE] @ b[start : start + TILE]).half()
    kernel = record(1024, "float16", "float32", "float16")
    found = judged(harness, total.float(), a @ b, kernel, a, b, "float32")
    assert (found.within, found.accumulator) == (False, "float16"), found


def test_values_that_nobody_wrote_are_no_rounding(harness) -> None:
    a, b = operands(256)
    found = judged(
        harness, product(a, b, "float16"), a @ b, record(256, "float16", "float16"), a, b, "float16", sound=False
    )
    assert found.within is None


def test_integers_that_are_off_by_one_are_no_rounding(harness) -> None:
    mismatch = harness("mismatch")
    expected = torch.arange(100)
    actual = expected + (expected % 33 == 5).long() - (expected % 33 == 7).long()
    told, _ = mismatch.summarize(actual, expected, actual != expected)
    told["differences"] = mismatch.differences(actual, expected, [])
    found = judge(from_json(Mismatch, told), record(64, "float16", "int64"), "C", {}, tensor_cores=False)
    assert found.within is not True
