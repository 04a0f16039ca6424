"""Whatever a record holds, even one that was cut or made by hand, the detectors answer and do not raise."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from lint_kernels import DEVICES

from triage.lints import inspect
from triage.model import Access, BufferInfo, KernelRecord, Launch, Loop, Statement, TileOp

NAMES = st.sampled_from(["a", "b", "", "s[0]", "x(", "missing"])
SIZES = st.one_of(st.integers(-2, 5000), st.just("n"))
BOUNDS = st.lists(st.one_of(st.none(), st.integers(-300, 300)), max_size=3).map(tuple)
SCOPES = st.sampled_from(["global", "shared.dyn", "local.fragment", "local", "shared.tmem", "odd"])
DTYPES = st.sampled_from(["float32", "float8_e4m3fn", "float16", "custom[x]"])
TEXTS = st.sampled_from(
    [
        "a = b",
        "tvm_storage_sync('shared')",
        "thread_return()",
        "atomic_add_elem_op(access_ptr(a[0], 1, 3), b)",
        "",
        "tx < 5",
        "tx = launch_thread_idx(0)",
        "a[i] = a[i] + b[tx, i // 2]",
        "a[i, 0] = if_then_else(i * 4 + tx < n, b[i * 2 + tx], 0)",
        "a[0] = float16(a[0] + b[0])",
        "attr warp_specialize = 1",
        "call_extern('debug_print_buffer_value', '', 'a', i, a[i])",
        "device_assert(a[0])",
    ]
)
ACCESSES = st.builds(
    Access,
    NAMES,
    st.lists(st.sampled_from(["0", "i", "i + 1"]), max_size=3).map(tuple),
    BOUNDS,
    BOUNDS,
    BOUNDS,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["read", "write", "readwrite"]),
)
BUFFERS = st.builds(
    BufferInfo,
    NAMES,
    SCOPES,
    DTYPES,
    st.lists(SIZES, max_size=3).map(tuple),
    st.sampled_from([0, 8, 32]),
    st.one_of(st.none(), st.integers(0, 10**7)),
    st.booleans(),
    alias_of=st.one_of(st.none(), NAMES),
)
LOOPS = st.builds(
    Loop,
    st.just("i"),
    st.sampled_from(["serial", "parallel", "pipelined", "vectorized"]),
    SIZES,
    SIZES,
    st.dictionaries(st.sampled_from(["num_stages", "tl_pipeline_order"]), st.one_of(st.integers(-1, 9), st.text())),
)
OPS = st.builds(
    TileOp, st.sampled_from(["copy", "gemm", "fill", "reduce", "atomicadd"]), st.lists(NAMES, max_size=4).map(tuple)
)


def statements(inner: st.SearchStrategy[tuple[Statement, ...]]) -> st.SearchStrategy[tuple[Statement, ...]]:
    one = st.builds(
        Statement,
        st.integers().map(str),
        st.sampled_from(["for", "if", "op", "store", "bind", "call", "return", "while", "alloc", "attr"]),
        text=TEXTS,
        loop=st.one_of(st.none(), LOOPS),
        op=st.one_of(st.none(), OPS),
        condition=st.one_of(st.none(), TEXTS),
        divergent=st.one_of(st.none(), st.booleans()),
        accesses=st.lists(ACCESSES, max_size=3).map(tuple),
        body=inner,
        orelse=inner,
    )
    return st.lists(one, max_size=3).map(tuple)


RECORDS = st.builds(
    KernelRecord,
    NAMES,
    st.sampled_from([{}, {"kind": "cuda"}, {"kind": "hip", "mcpu": "gfx942"}]),
    buffers=st.lists(BUFFERS, max_size=4).map(tuple),
    launch=st.builds(Launch, st.lists(SIZES, max_size=3).map(tuple), st.lists(SIZES, max_size=3).map(tuple)),
    statements=statements(statements(st.just(()))),
    shared_bytes=st.one_of(st.none(), st.integers(0, 10**6)),
)


@settings(max_examples=300, deadline=None)
@given(RECORDS, st.sampled_from(sorted(DEVICES)), st.one_of(st.none(), st.just("__launch_bounds__(4096, 1)")))
def test_no_record_makes_a_detector_raise(record: KernelRecord, arch: str, source: str | None) -> None:
    first = inspect(record, DEVICES[arch], source)
    assert first == inspect(record, DEVICES[arch], source)
    assert all(hazard.kind and hazard.certainty in ("certain", "likely") for hazard in first)
