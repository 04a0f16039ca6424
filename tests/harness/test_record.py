"""The kernel record says where each buffer and statement stands, and which elements each access can touch."""

from __future__ import annotations

import importlib
import json

import pytest

from triage.model import KernelRecord, Statement, from_json

pytestmark = pytest.mark.tilelang

HEAD = """
    import tilelang
    import tilelang.language as T

    N = 1024
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float16"), I: T.Tensor((16,), "int32")):
        with T.Kernel(16, threads=64) as bx:
"""


@pytest.fixture
def recorded(harness, context, script, monkeypatch):
    """The record of the kernel `main` that a script defines; `body` is indented below `with T.Kernel(…) as bx`."""

    builder = importlib.import_module("tilelang.language.eager.builder").Builder
    for patched in ("set_fileline", "_current_stmt_frame", "boolop", "ifexp"):
        monkeypatch.setattr(builder, patched, getattr(builder, patched))  # so that they are restored
    ir = importlib.import_module("tilelang.ir")
    monkeypatch.setattr(ir, "make_span", ir.make_span)
    harness("spans").name_user_lines(builder, context)

    def run(body: str = "", text: str | None = None) -> KernelRecord:
        text = text or HEAD + "".join(f"            {line}\n" for line in body.strip("\n").splitlines())
        func = script(text)["main"]
        return from_json(KernelRecord, json.loads(harness("record").dump(func, {"kind": "cuda"}, {}, [])))

    return run


def flat(statements: tuple[Statement, ...]) -> list[Statement]:
    return [t for s in statements for t in (s, *flat(s.body), *flat(s.orelse))]


def accesses(record: KernelRecord, buffer: str):
    return [a for s in flat(record.statements) for a in s.accesses if a.buffer == buffer]


def test_interface_launch_and_buffers(recorded):
    record = recorded(
        """
s = T.alloc_shared((8, 64), "float16")
f = T.alloc_fragment((64,), "float32")
T.clear(f)
T.copy(B[bx * 64], s[3, 0])
"""
    )
    assert [(p["name"], p["dtype"], p["shape"]) for p in record.params] == [
        ("A", "float32", [1024]),
        ("B", "float16", [1024]),
        ("I", "int32", [16]),
    ]
    assert (record.launch.grid, record.launch.threads) == ((16,), (64, 1, 1))
    assert record.launch.at is not None and record.launch.at.line == 8
    buffers = {b.name: b for b in record.buffers}
    assert [b.name for b in record.buffers if b.param] == ["A", "B", "I"]
    assert (buffers["s"].shape, buffers["s"].bits, buffers["s"].bytes, buffers["s"].at.line) == ((8, 64), 16, 1024, 9)
    assert buffers["s"].scope.startswith("shared") and buffers["f"].scope == "local.fragment"


def test_the_same_name_twice_stays_apart(recorded):
    record = recorded(
        """
for k in T.serial(2):
    s = T.alloc_local((4,), "float32")
    s[0] = 1.0
for k in T.serial(2):
    s = T.alloc_local((8,), "float32")
    s[0] = 2.0
"""
    )
    shapes = {b.name: (b.shape, b.source_name) for b in record.buffers if not b.param}
    assert len(shapes) == 2
    assert sorted(shape for shape, _ in shapes.values()) == [(4,), (8,)]
    stores = [s.accesses[0].buffer for s in flat(record.statements) if s.kind == "store"]
    assert [shapes[name][0] for name in stores] == [(4,), (8,)]


def test_an_affine_index_is_exact(recorded):
    record = recorded("for i in T.Parallel(64):\n    A[bx * 64 + i] = 0.0\n")
    (access,) = accesses(record, "A")
    assert (access.index, access.low, access.high) == (("bx * 64 + i",), (0,), (1023,))
    assert (access.exact, access.guarded, access.mode) == (True, False, "write")


def test_an_index_beyond_the_end_shows(recorded):
    record = recorded("for i in T.Parallel(64):\n    A[bx * 64 + i + 1] = 0.0\n")
    (access,) = accesses(record, "A")
    assert (access.low, access.high, access.exact) == ((1,), (1024,), True)


@pytest.mark.parametrize(
    ("index", "low", "high"),
    [
        ("(bx * 64 + i) // 8", 0, 127),
        ("(i * 5) % 7", 0, 6),
        ("T.min(bx * 64 + i, 1000)", 0, 1000),
        ("i - i", 0, 0),
        ("63 - i", 0, 63),
        ("i * 2 - i", 0, 63),
        ("i - 3", -3, 60),
    ],
)
def test_ranges_are_those_of_the_values_taken(recorded, index, low, high):
    record = recorded(f"for i in T.Parallel(64):\n    A[{index}] = 0.0\n")
    (access,) = accesses(record, "A")
    assert (access.low, access.high, access.exact) == ((low,), (high,), True)


def test_a_range_that_depends_on_another_loop_is_not_exact(recorded):
    record = recorded("for i in T.serial(4):\n    for j in T.serial(i + 1):\n        A[j] = 0.0\n")
    (access,) = accesses(record, "A")
    assert access.exact is False
    assert access.low == (0,) and (access.high[0] is None or access.high[0] >= 3)


def test_an_index_out_of_data_is_unknown(recorded):
    record = recorded("for i in T.serial(4):\n    A[I[i]] = 0.0\n")
    (access,) = accesses(record, "A")
    assert (access.low, access.high, access.exact) == ((None,), (None,), False)
    (read,) = accesses(record, "I")
    assert (read.mode, read.low, read.high, read.exact) == ("read", (0,), (3,), True)


def test_a_symbolic_size_is_unknown(recorded):
    record = recorded(
        text="""
        import tilelang.language as T
        n = T.dynamic("n")
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
                for i in T.Parallel(64):
                    A[bx * 64 + i] = 0.0
                    A[n - 1] = 0.0
        """
    )
    first, second = accesses(record, "A")
    assert record.params[0]["shape"] == ["n"]
    assert record.buffers[0].bytes is None
    assert isinstance(record.launch.grid[0], str) and "n" in record.launch.grid[0]
    assert first.high == (None,) and second.high == (None,) and not first.exact and not second.exact


def test_what_an_if_guards_says_so(recorded):
    record = recorded(
        """
for i in T.Parallel(64):
    if bx * 64 + i < 1000:
        A[bx * 64 + i + 24] = 0.0
    B[bx * 64 + i] = T.if_then_else(i > 0, A[bx * 64 + i - 1], 0.0)
"""
    )
    assert [(a.mode, a.guarded) for a in accesses(record, "A")] == [("write", True), ("read", True)]
    assert [a.guarded for a in accesses(record, "B")] == [False]


@pytest.mark.parametrize(
    ("condition", "divergent"),
    [
        ("bx > 3", False),
        ("T.get_thread_binding() < 32", True),
        ("T.get_thread_binding() + bx > 3", True),
        ("A[bx] > 0.0", False),
        ("loc[0] > 0.0", None),
        ("T.get_lane_idx() == 0", True),
    ],
)
def test_divergent_conditions(recorded, condition, divergent):
    record = recorded(f'loc = T.alloc_local((1,), "float32")\nloc[0] = A[bx]\nif {condition}:\n    T.sync_threads()\n')
    (statement,) = [s for s in flat(record.statements) if s.kind == "if"]
    assert statement.divergent is divergent


def test_a_thread_index_behind_a_name_is_divergent_and_bounded(recorded):
    record = recorded("tx = T.get_thread_binding()\nhalf = tx // 2\nif half < 8:\n    A[half] = 0.0\nA[tx * 2] = 1.0\n")
    (branch,) = [s for s in flat(record.statements) if s.kind == "if"]
    assert branch.divergent is True
    first, second = accesses(record, "A")
    assert (first.high, first.guarded) == ((31,), True)
    assert (second.low, second.high, second.exact) == ((0,), (126,), True)


def test_loops_and_their_annotations(recorded):
    record = recorded(
        """
s = T.alloc_shared((64,), "float32")
for k in T.Pipelined(4, num_stages=2):
    T.copy(A[k * 64], s)
for i in T.serial(3):
    for j in T.unroll(2):
        A[i * 2 + j] = 0.0
for i in T.Parallel(64):
    for v in T.vectorized(4):
        A[i * 4 + v] = 0.0
"""
    )
    loops = [s.loop for s in flat(record.statements) if s.loop]
    assert [(loop.var, loop.kind, loop.extent) for loop in loops] == [
        ("k", "pipelined", 4),
        ("i", "serial", 3),
        ("j", "unrolled", 2),
        ("i", "parallel", 64),
        ("v", "vectorized", 4),
    ]
    assert loops[0].annotations["num_stages"] == 2
    assert accesses(record, "A")[0].high == (192,)


def test_a_statement_with_a_condition_in_it_has_its_own_line(recorded):
    record = recorded(
        """
s = T.alloc_shared((8, 64), "float32")
for i in T.Parallel(8):
    low, high = i - 1, i + 1
    s[i, 0] = T.if_then_else(low < 0 or high > 4, 0.0, 1.0)
    s[i, 1] = 2.0 if low < 2 else 3.0
        """
    )
    lines = [(s.kind, s.at.line) for s in flat(record.statements) if s.at and s.at.line > 9]
    assert lines == [("for", 10), ("bind", 11), ("bind", 11), ("store", 12), ("store", 13)]


def test_statements_of_a_warp_group_have_their_own_lines(recorded):
    record = recorded(
        """
s = T.alloc_shared((64,), "float32")
with T.ws(0):
    T.copy(A[bx * 64], s)
    for i in T.Parallel(64):
        s[i] = s[i] + 1.0
    T.copy(s, A[bx * 64])
"""
    )
    lines = [(s.kind, s.at.line) for s in flat(record.statements) if s.at and s.at.line > 9]
    assert lines == [("if", 10), ("attr", 10), ("op", 11), ("for", 12), ("store", 13), ("op", 14)]


def test_tile_operators_are_decoded(recorded):
    record = recorded(
        text="""
        import tilelang.language as T

        @T.prim_func
        def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float32")):
            with T.Kernel(2, 2, threads=128) as (bx, by):
                a = T.alloc_shared((128, 32), "float16")
                b = T.alloc_shared((128, 32), "float16")
                c = T.alloc_fragment((128, 128), "float32")
                m = T.alloc_fragment((128,), "float32")
                T.fill(c, 1.5)
                T.copy(A[by * 128, 0], a)
                T.gemm(a, b, c, transpose_B=True)
                T.reduce_max(c, m, dim=1)
                for i in T.Parallel(128):
                    T.atomic_add(C[0, i], m[i])
        """
    )
    ops = [s for s in flat(record.statements) if s.op]
    assert [(s.op.name, s.at.line) for s in ops[:4]] == [("fill", 11), ("copy", 12), ("gemm", 13), ("reduce", 14)]
    assert ops[0].op.params["value"] == 1.5
    gemm = ops[2].op.params
    assert (gemm["transpose_A"], gemm["transpose_B"], gemm["M"], gemm["N"], gemm["K"]) == (False, True, 128, 128, 32)
    assert (ops[3].op.params["type"], ops[3].op.params["dim"]) == ("max", 1)
    assert [(a.buffer, a.extent, a.mode) for a in ops[1].accesses] == [
        ("A", (128, 32), "read"),
        ("a", (128, 32), "write"),
    ]
    (read,) = accesses(record, "A")
    assert (read.low, read.high, read.exact) == ((0, 0), (128, 0), True)
    assert any(a.mode in ("write", "readwrite") for a in accesses(record, "C"))


def test_ids_are_unique(recorded):
    record = recorded(
        "for i in T.serial(2):\n    if bx > i:\n        A[i] = 0.0\n    else:\n        A[i] = 1.0\n    A[i + 2] = 2.0\nA[0] = 3.0\n"
    )
    ids = [s.id for s in flat(record.statements)]
    assert len(ids) == len(set(ids))


def test_two_launches_are_both_recorded(recorded):
    record = recorded(
        text="""
        import tilelang.language as T

        @T.prim_func
        def main(A: T.Tensor((1024,), "float32")):
            with T.Kernel(8, threads=128) as bx:
                for i in T.Parallel(128):
                    A[bx * 128 + i] = 0.0
            with T.Kernel(4, 2, threads=64) as (bx, by):
                for i in T.Parallel(64):
                    A[by * 512 + bx * 128 + i] = 1.0
        """
    )
    assert [(launch.grid, launch.threads, launch.at.line) for launch in record.launches] == [
        ((8,), (128, 1, 1), 6),
        ((4, 2), (64, 1, 1), 9),
    ]
    assert record.launch == record.launches[0]
    assert [a.high for a in accesses(record, "A")] == [(1023,), (959,)]
