"""Two small kernels that the template lowers before it serves: one good, one that a pass refuses.

The first lowering of a process loads and builds what all later ones share, and so does the first error. A worker
forked after both needs a third of the time.
"""

import importlib
import pkgutil

import tilelang.language as T


def gemm(rows: int):
    """A matrix product of one block of `rows` × 64; 100 rows have no warp partition."""

    @T.prim_func
    def prime(
        A: T.Tensor((rows, 32), "float16"),
        B: T.Tensor((32, 64), "float16"),
        C: T.Tensor((rows, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((rows, 64), "float32")
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            T.copy(c, C)

    return prime


GOOD_ROWS = 64
BAD_ROWS = 100


def virtual_device() -> None:
    """Load what a script's run loads of the harness; nothing of it acts before it is installed."""
    from . import boot, capture, comparisons, mismatch, twin, virtual  # noqa: F401

    # what the shape of a convolution or of stacked tensors is asked of: it takes a fork longer than all it has to compute
    importlib.import_module("torch.fx.experimental.symbolic_shapes")
    for package in (virtual, twin):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
