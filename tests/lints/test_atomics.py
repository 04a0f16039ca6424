from __future__ import annotations

import dataclasses

import pytest
from lint_kernels import branch, buffer, call, kernel, kinds, loop, only, op, region

from triage.model import Place, Statement, TileOp

A, TOTAL = buffer("A", (128,), "global"), buffer("total", (1,), "global", line=3)
TX = Statement("t", "bind", None, "tx = launch_thread_idx(0)")
X = Statement("x", "bind", None, "x = A[tx] * 2.0", accesses=(region("A", "read", (0, 127, 1)),))
INTO = region("total", "write", (0, 0, 1))


def atomic(value: str) -> Statement:
    statement = op("atomicadd", INTO, line=12)
    return dataclasses.replace(statement, op=TileOp("atomicadd", args=(value, "total[0]")))


@pytest.mark.parametrize("value", ["A[tx]", "x", "x + 1.0"])
def test_a_value_of_each_thread_into_a_whole_buffer(value: str) -> None:
    hazard = only(kernel([A, TOTAL], TX, X, atomic(value)), "atomic-once-per-block")
    assert hazard.at == Place("kernel.py", 12) and hazard.labels[0].line == 3
    assert hazard.fields == {"op": "atomicadd", "buffer": "total", "value": value}


@pytest.mark.parametrize(
    ("scope", "value", "expected"),
    [
        ("local", "A[tx] > 0.0", True),
        ("local.var", "x", True),
        ("local", "A[bx]", False),
        ("shared.dyn", "A[tx] > 0.0", False),
    ],
)
def test_a_value_that_each_thread_kept_in_memory_of_its_own(scope: str, value: str, expected: bool) -> None:
    flag = buffer("flag", (1,), scope)
    kept = Statement("k", "store", None, f"flag[0] = {value}", accesses=(region("flag", "write", (0, 0, 1)),))
    found = kinds(kernel([A, TOTAL, flag], TX, X, kept, atomic("flag[0]")))
    assert ("atomic-once-per-block" in found) is expected


@pytest.mark.parametrize("value", ["1.0", "A[bx]", "context"])
def test_a_value_of_the_block(value: str) -> None:
    assert kinds(kernel([A, TOTAL], TX, X, atomic(value))) == []


def test_every_element_by_its_own_thread() -> None:
    assert kinds(kernel([A, TOTAL], TX, call("atomic_add_elem_op(access_ptr(total[0], 1, 3), A[tx])"))) == []


@pytest.mark.parametrize(("dtype", "expected"), [("float16", ["atomic-emulated"]), ("float32", [])])
def test_maxima_without_an_instruction(dtype: str, expected: list[str]) -> None:
    of = buffer("m", (1,), "global", dtype)
    text = "atomic_max_elem_op(access_ptr(m[0], 1, 3), A[i], 0)"
    statement = dataclasses.replace(call(text), accesses=(region("m", "readwrite", (0, 0, 1)),))
    assert kinds(kernel([A, of], loop("parallel", 128, statement))) == expected
    assert kinds(kernel([A, of], statement, target={"kind": "hip", "mcpu": "gfx942"}), "gfx942") == []


@pytest.mark.parametrize("scope", ["local.fragment", "local"])
def test_atomics_on_what_no_other_thread_sees(scope: str) -> None:
    own = buffer("f", (128,), scope)
    clear = op("fill", region("f", "write", (0, 0, 128)))
    text = "old = atomic_add_ret_elem_op(access_ptr(f[0], 1, 3), A[i])"
    read = region("A", "read", (0, 127, 1))
    bound = Statement("b", "bind", Place("kernel.py", 14), text, accesses=(region("f", "readwrite", (0, 0, 1)), read))
    tile = op("atomicadd", region("A", "read", (0, 0, 128)), region("f", "write", (0, 0, 128)), line=15)
    for statement in (bound, tile):
        hazard = only(kernel([A, own], clear, statement), "atomic-on-registers")
        assert hazard.at == statement.at and hazard.fields["scope"] == scope
    from_fragment = op("atomicadd", region("f", "read", (0, 0, 128)), region("A", "write", (0, 0, 128)))
    assert kinds(kernel([A, own], clear, from_fragment)) == []


MINE = Statement("m", "bind", None, "mine = A[tx] * 2.0", accesses=(region("A", "read", (0, 127, 1)),))


@pytest.mark.parametrize("condition", ["A[tx] > 0.0", "mine > 0.0 and tx < 64"])
def test_a_condition_of_each_thread_on_a_whole_buffer(condition: str) -> None:
    record = kernel([A, TOTAL], TX, MINE, branch(condition, atomic("1"), divergent=True, line=11))
    hazard = only(record, "conditional-atomic-once-per-block")
    assert hazard.at == Place("kernel.py", 12) and hazard.labels[0].line == 11 and hazard.certainty == "certain"
    assert hazard.fields == {"op": "atomicadd", "buffer": "total", "condition": condition}


@pytest.mark.parametrize(
    "statement",
    [
        branch("A[bx] > 0.0", atomic("1"), divergent=False),
        branch("tx == 0", atomic("1"), divergent=True),
        branch("tx >= 128 and tx < 256", atomic("1"), divergent=True),  # T.ws(1)
        branch("A[tx] > 0.0", call("atomic_add_elem_op(access_ptr(total[0], 1, 3), 1)"), divergent=True),
    ],
)
def test_conditions_that_all_threads_share_or_that_pick_one(statement: Statement) -> None:
    assert kinds(kernel([A, TOTAL], TX, MINE, statement)) == []


def test_a_value_of_the_thread_is_told_once() -> None:
    record = kernel([A, TOTAL], TX, MINE, branch("mine > 0.0", atomic("mine"), divergent=True))
    assert kinds(record) == ["atomic-once-per-block"]


ONE, ROW, TILE = (
    buffer("t", (1,), "local.fragment"),
    buffer("s", (8,), "shared.dyn"),
    buffer("f", (8,), "local.fragment"),
)
FILLED = tuple(op("fill", region(name, "write", (0, 0, n))) for name, n in (("t", 1), ("s", 8), ("f", 8)))


def added(value: str, *reads: str, into: str = "total[0]", name: str = "atomic_add_elem_op") -> Statement:
    target = region(into.partition("[")[0], "readwrite", (0, 0, 1))
    accesses = (target, *(region(read, "read", (0, 0, 1)) for read in reads))
    return dataclasses.replace(call(f"{name}(access_ptr({into}, 1, 3), {value})", 12), accesses=accesses)


@pytest.mark.parametrize(("value", "reads"), [("t[0]", ("t",)), ("s[0] * A[bx]", ("s", "A"))])
def test_every_thread_adds_what_belongs_to_the_block(value: str, reads: tuple[str, ...]) -> None:
    record = kernel([A, TOTAL, ONE, ROW, TILE], TX, *FILLED, added(value, *reads))
    hazard = only(record, "atomic-by-every-thread")
    assert hazard.at == Place("kernel.py", 12) and hazard.certainty == "certain"
    assert hazard.fields == {"op": "atomic_add", "buffer": "total", "value": reads[0], "threads": 128}
    assert kinds(dataclasses.replace(record, launch=dataclasses.replace(record.launch, threads=(1,)))) == []
    in_turn = kernel([A, TOTAL, ONE, ROW, TILE], TX, *FILLED, loop("serial", 8, added(value, *reads)))
    assert kinds(in_turn) == ["atomic-by-every-thread"]


@pytest.mark.parametrize(
    "statement",
    [
        loop("parallel", 8, added("s[i]", "s")),
        branch("tx == 0", added("s[0]", "s"), divergent=True),
        branch("elected", added("s[0]", "s"), divergent=None),
        added("s[tx]", "s"),
        added("1"),  # counts the threads
        added("A[bx]", "A"),
        added("f[0]", "f"),  # the thread that has the element adds it
        added("t[0]", "t", name="atomic_max_elem_op"),
        added("t[0]", "t", into="s[0]"),
    ],
)
def test_additions_that_are_meant(statement: Statement) -> None:
    assert kinds(kernel([A, TOTAL, ONE, ROW, TILE], TX, *FILLED, statement)) == []
