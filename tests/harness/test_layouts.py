"""Kernels with layouts of their own compile to the same source after a trip through saved JSON."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tilelang

SHARED = """
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 32), "bfloat16")
        T.annotate_layout({{a: {layout}}})
        T.copy(A, a)
        for i, j in T.Parallel(128, 32):
            B[i, j] = a[i, j]
"""
FRAGMENT = """
    with T.Kernel(1, threads=256):
        f = T.alloc_fragment((128, 32), "bfloat16")
        T.annotate_layout({{f: {layout}}})
        T.copy(A, f)
        for i, j in T.Parallel(128, 32):
            B[i, j] = f[i, j]
"""
LOOP = """
    with T.Kernel(1, threads=256):
        for i, j in T.Parallel(128, 32, loop_layout={layout}):
            B[i, j] = A[i, j]
"""
ROWS = "Fragment((128, 32), forward_thread_fn=lambda i, j: i, forward_index_fn=lambda i, j: j)"
TWICE = (
    "Fragment((128, 32), forward_thread_fn=lambda i, j, r: r * 128 + i, replicate=2, forward_index_fn=lambda i, j: j)"
)
KERNELS = {
    "swizzled": (SHARED, "tilelang.layout.make_swizzled_layout(a)"),
    "padded": (SHARED, "Layout((128, 32), lambda i, j: i * 40 + j)"),
    "given as a function": (SHARED, "lambda i, j: (i, (j + i) % 32)"),
    "fragment": (FRAGMENT, ROWS),
    "replicated fragment": (FRAGMENT, TWICE),
    "fully replicated fragment": (FRAGMENT, "tilelang.layout.make_fully_replicated_layout_fragment(f, 256)"),
    "loop": (LOOP, TWICE),
    "none": (SHARED.replace("        T.annotate_layout({{a: {layout}}})\n", ""), ""),
}


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request, tmp_path_factory):
    body, layout = KERNELS[request.param]
    path = tmp_path_factory.mktemp("layouts") / "kernel.py"
    path.write_text(
        "import tilelang\nimport tilelang.language as T\nfrom tilelang.layout import Fragment, Layout\n\n@T.prim_func\n"
        'def kernel(A: T.Tensor((128, 32), "bfloat16"), B: T.Tensor((128, 32), "bfloat16")):'
        + body.format(layout=layout)
    )
    namespace: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    return namespace["kernel"]


def source(func) -> str:
    import tilelang
    from tilelang import tvm

    target = tvm.target.Target({"kind": "cuda", "arch": "sm_80"})
    with target:
        return tilelang.lower(func, target=target).kernel_source


def test_the_loaded_kernel_compiles_to_the_same_source(kernel, harness):
    from tilelang import tvm

    loaded = tvm.ir.load_json(tvm.ir.save_json(kernel))
    assert source(harness("layouts").restore(loaded)) == source(kernel)


def test_a_kernel_without_layouts_is_left_as_it_is(harness):
    func = harness("prime").gemm(64)
    assert harness("layouts").restore(func) is func


def test_a_fragment_that_cannot_be_built_again_is_named(harness):
    """One whose replicas lie in a range of threads that does not begin at the first."""
    import types

    lost = types.SimpleNamespace(
        get_input_shape=lambda: [64], thread_range=object(), replicate_size=4, index=["_i // 2"], thread="_i % 2"
    )
    layouts = harness("layouts")
    with pytest.raises(layouts.LostLayout, match="range of threads"):
        layouts._fragment(lost)
