"""Squared Euclidean distances between two sets of points, summed over the coordinates one after another."""

import sys

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def distances(M, N, dim, block=32):
    @T.prim_func
    def main(
        A: T.Tensor((M, dim), "float32"),
        B: T.Tensor((N, dim), "float32"),
        D: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, dim), "float32")
            b = T.alloc_shared((block, dim), "float32")
            d = T.alloc_fragment((block, block), "float32")
            T.copy(A[by * block, 0], a)
            T.copy(B[bx * block, 0], b)
            T.clear(d)
            for k in T.serial(dim):
                for i, j in T.Parallel(block, block):
                    d[i, j] += (a[i, k] - b[j, k]) * (a[i, k] - b[j, k])
            T.copy(d, D[by * block, bx * block])

    return main


def reference(a, b):
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :]
    return squares - 2 * (a @ b.t())  # BUG


if __name__ == "__main__":
    torch.manual_seed(25)
    M, N, dim = 128, 160, 16
    center = 300.0
    a = torch.randn(M, dim, device="cuda") * 0.1 + center
    b = torch.randn(N, dim, device="cuda") * 0.1 + center
    d = distances(M, N, dim)(a, b)
    ref = reference(a, b)
    bad = (d - ref).abs() > 1e-3 + 1e-3 * ref.abs()
    if bad.any():
        sys.exit(f"{bad.sum().item()} of {bad.numel()} distances differ")
    print("distances ok")
