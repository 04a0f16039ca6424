from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lint_kernels import FILE, branch, buffer, kernel, kinds, only, region, store

from triage.model import KernelRecord, Loop, Place, Statement

X, S = buffer("X", (64, 64), "global"), buffer("S", (64,), "global", line=3)
SHARED, FRAGMENT = buffer("s", (64,), "shared.dyn"), buffer("f", (64,), "local.fragment")


def statement(text: str, line: int = 12) -> Statement:
    name = text.partition("[")[0]
    return dataclasses.replace(store(region("X", "read"), region(name, "write"), line=line), text=text)


def nest(loops: dict[str, int | str], *body: Statement, **more: Any) -> Statement:
    inner: tuple[Statement, ...] = body
    for number, (var, extent) in enumerate(reversed(loops.items())):
        head = Loop(var, more.get("kind", "parallel"), 0, extent, more.get("annotations", {}))
        inner = (Statement(f"{id(body)}.{number}", "for", Place(FILE, 9), f"for {var}", loop=head, body=inner),)
    return inner[0]


def record(*statements: Statement, threads: int = 128) -> KernelRecord:
    start = Statement("t", "bind", None, "tx = launch_thread_idx(0)")
    filled = store(region("s", "write"), line=5)
    return kernel([X, S, SHARED, FRAGMENT], start, filled, *statements, threads=(threads,))


@pytest.mark.parametrize("update", ["S[i] + X[i, j]", "X[i, j] + S[i]", "max(S[i], X[i, j])", "S[i] + 1.0"])
def test_an_update_by_several_threads(update: str) -> None:
    hazard = only(record(nest({"i": 64, "j": 64}, statement(f"S[i] = {update}"))), "parallel-update-collides")
    assert hazard.at == Place(FILE, 12) and hazard.labels[0].line == 3 and hazard.certainty == "certain"
    pair = {"first": "i = 0, j = 0", "second": "i = 0, j = 1"}
    assert hazard.fields == {"buffer": "S", "index": "i", "loops": "i, j", **pair}


@pytest.mark.parametrize("index", ["i", "(i * 64 + j) // 64", "j % 8", "base + i", "i * 2 + j"])
def test_different_values_in_one_element(index: str) -> None:
    hazard = only(record(nest({"i": 64, "j": 64}, statement(f"S[{index}] = X[i, j]"))), "parallel-writes-collide")
    assert hazard.certainty == "likely"


def test_names_bound_in_the_loop() -> None:
    half = Statement("h", "bind", Place(FILE, 11), "h = i // 32")
    term = Statement("v", "bind", Place(FILE, 11), "v = X[i, 0] * 2.0")
    found = only(record(nest({"i": 64}, half, term, statement("S[h] = v"))), "parallel-writes-collide")
    assert found.fields["index"] == "i // 32"
    again = dataclasses.replace(half, text="h = h + 1")
    assert kinds(record(nest({"i": 64}, half, again, statement("S[h] = X[i, 0]")))) == []


@pytest.mark.parametrize(
    "body",
    [
        nest({"i": 64, "j": 64}, statement("S[i] = 1.0")),  # all the same
        nest({"i": 64, "j": 64}, statement("S[i] = max(S[i], 0.0)")),
        nest({"i": 64, "j": 64}, statement("S[i * 64 + j] = X[i, j]")),
        nest({"i": 64, "j": 64}, branch("j == 5", statement("S[i] = X[i, j]"), divergent=True)),
        nest({"i": 64, "j": 64}, statement("S[int32(X[i, j])] = X[i, j]")),  # only the run knows where
        nest({"i": 64, "j": 64}, statement("f[i] = f[i] + X[i, j]")),
        nest({"i": 64, "j": 64}, statement("S[i] = S[i] + X[i, j]"), kind="serial"),
        nest({"i": 64, "j": "n"}, statement("S[i] = S[i] + X[i, j]")),
        nest({"i": 64, "j": 64}, statement("S[i] = S[i] + X[i, j]"), annotations={"parallel_loop_layout": "…"}),
        nest({"i": 64, "i ": 64}, statement("S[tx] = X[i, tx]")),  # tx is the thread itself
        nest({"j": 64, "i": 128}, statement("S[i] = S[i] + X[i, j]")),  # a thread for each i
        nest({"i": 64, "j": 1}, statement("S[i] = S[i] + X[i, j]")),
    ],
)
def test_iterations_that_keep_out_of_each_others_way(body: Statement) -> None:
    assert kinds(record(body)) == []


def test_a_fragment_in_the_loop_lays_it_out() -> None:
    read = dataclasses.replace(statement("S[i] = S[i] + X[i, j]"), accesses=(region("f", "read"), region("S", "write")))
    loads = store(region("f", "write"))
    assert kinds(record(loads, nest({"i": 64, "j": 64}, read))) == []


def test_one_thread_does_it_all() -> None:
    assert kinds(record(nest({"i": 64, "j": 64}, statement("S[i] = S[i] + X[i, j]")), threads=1)) == []


MEASURED = {  # order of the loops, rows, columns, threads → right on an H200
    **{("ij", 64, columns, threads): False for columns in (4, 64) for threads in (64, 128)},
    **{("ji", 128, columns, threads): True for columns in (4, 64) for threads in (64, 128)},
    **{("ji", 64, columns, 64): True for columns in (4, 64)},
    **{("ji", 64, columns, 128): False for columns in (4, 64)},
}


@pytest.mark.parametrize(("order", "rows", "columns", "threads"), MEASURED)
def test_what_was_measured(order: str, rows: int, columns: int, threads: int) -> None:
    sizes = {"i": rows, "j": columns}
    update = statement("S[i] = S[i] + X[i, j]")
    found = kinds(record(nest({name: sizes[name] for name in order}, update), threads=threads))
    assert found == ([] if MEASURED[order, rows, columns, threads] else ["parallel-update-collides"])


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_vectors_spread_a_column_over_threads(arch: str) -> None:
    """Measured: with vectors of four a thread has every fourth row of its columns only."""
    wide, sums = buffer("X", (64, 128), "global"), buffer("S", (128,), "global")
    update = nest({"j": 64, "i": 128}, statement("S[i] = S[i] + X[j, i]"))
    assert kinds(dataclasses.replace(record(update), buffers=(wide, sums)), arch) == ["parallel-update-collides"]


INDICES = [
    "{a} * i + {b} * j",
    "(i * {a} + j) // {b}",
    "i * {a} + j % {b}",
    "i // {a}, j // {b}",
    "i, j",
    "i * {n} + j",
]


@given(
    st.sampled_from(INDICES),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 40),
)
def test_only_what_collides_is_accused(form: str, a: int, b: int, m: int, n: int, threads: int) -> None:
    index = form.format(a=a, b=b, n=n)
    found = kinds(record(nest({"i": m, "j": n}, statement(f"S[{index}] = X[i, j]")), threads=threads))
    elements = [eval(index, {}, {"i": i, "j": j}) for i, j in itertools.product(range(m), range(n))]
    if len(set(elements)) == len(elements) or threads == 1:
        assert found == []
    assert set(found) <= {"parallel-writes-collide"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("S[0] = S[0] + X[tx, 0]", "threads-update-one-element"),
        ("s[j] = max(X[tx, 0], s[j])", "threads-update-one-element"),
        ("S[j] = S[j] + mine", "threads-update-one-element"),
        ("S[0] = X[tx, 0]", "threads-store-one-element"),
    ],
)
def test_an_element_of_all_threads(text: str, kind: str) -> None:
    mine = Statement("m", "bind", Place(FILE, 11), "mine = X[tx, 0] * 2.0")
    for body in (statement(text), nest({"j": 8}, statement(text), kind="serial")):
        hazard = only(record(mine, body), kind)
        assert hazard.at == Place(FILE, 12) and hazard.certainty == ("certain" if "update" in kind else "likely")
        assert hazard.fields["element"] == text.partition(" = ")[0] and hazard.fields["threads"] == 128
    assert kinds(record(mine, statement(text), threads=1)) == []


@pytest.mark.parametrize(
    "body",
    [
        statement("S[tx] = S[tx] + X[tx, 0]"),
        statement("S[0] = S[0] + X[bx, 0]"),  # all compute the same
        statement("S[0] = X[bx, 0]"),
        statement("f[0] = f[0] + X[tx, 0]"),  # registers
        statement("S[int32(X[tx, 0])] = X[tx, 0]"),
        statement("S[int32(X[0, 0])] = X[tx, 0]"),  # only the run knows where
        branch("tx == 5", statement("S[0] = X[tx, 0]"), divergent=True),
        nest({"i": 64}, statement("S[i] = X[tx, i]")),
    ],
)
def test_elements_of_one_thread_or_values_of_all(body: Statement) -> None:
    assert kinds(record(body)) == []


@pytest.mark.parametrize("read", ["s[700 - i]", "s[i + 40]", "s[i // 2]"])
def test_an_iteration_that_reads_what_another_writes(read: str) -> None:
    hazard = only(record(nest({"i": 4096}, statement(f"s[i] = {read} * 2.0"))), "parallel-reads-others")
    assert hazard.at == Place(FILE, 12) and hazard.certainty == "likely"
    assert (hazard.fields["written"], hazard.fields["read"]) == ("s[i]", read)
    numbers = [int(hazard.fields[one].removeprefix("i = ")) for one in ("writer", "reader")]
    assert eval(read.replace("s[", "").rstrip("]"), {}, {"i": numbers[1]}) == numbers[0]  # the element is the same


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        (nest({"i": 512}, statement("s[i] = s[i] * 2.0")), 128),
        (nest({"i": 256}, statement("s[i] = s[i + 256]")), 128),  # beyond what is written
        (nest({"i": 512}, statement("s[i] = X[511 - i, 0]")), 128),
        (nest({"i": 512}, statement("f[i] = f[511 - i]")), 128),
        (nest({"i": 512}, statement("s[i] = s[int32(X[i, 0])]")), 128),
        (nest({"i": 32}, statement("s[i] = s[31 - i]")), 32),  # one warp
        (nest({"i": 512}, statement("s[i] = s[511 - i]"), kind="serial"), 128),
    ],
)
def test_iterations_that_read_their_own(body: Statement, threads: int) -> None:
    assert kinds(record(body, threads=threads)) == []
