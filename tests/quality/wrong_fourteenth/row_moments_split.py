"""Mean and standard deviation of a few long rows: split over blocks, then one small finishing kernel.

Sums are taken of x - pivot so that a large common level does not eat the digits of the variance.
"""
import sys

import torch
import tilelang
import tilelang.language as T

SPLITS = 6
TILE = 64


@tilelang.jit
def partial_sums(M, N):
    span = -(-N // SPLITS)

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), S1: T.Tensor((M, SPLITS), "float32"), S2: T.Tensor((M, SPLITS), "float32")):
        with T.Kernel(SPLITS, M, threads=64) as (s, row):
            d = T.alloc_fragment((1, TILE), "float32")
            q = T.alloc_fragment((1, TILE), "float32")
            a = T.alloc_fragment((1,), "float32")
            b = T.alloc_fragment((1,), "float32")
            T.clear(a)
            T.clear(b)
            begin = s * span
            end = T.min(N, begin + span)
            pivot = X[row, begin]
            for t in T.serial(T.ceildiv(span, TILE)):
                for i, j in T.Parallel(1, TILE):
                    k = begin + t * TILE + j
                    d[i, j] = T.if_then_else(k < end, X[row, k] - pivot, 0.0)
                    q[i, j] = d[i, j] * d[i, j]
                T.reduce_sum(d, a, dim=1, clear=False)
                T.reduce_sum(q, b, dim=1, clear=False)
            for i in T.Parallel(1):
                S1[row, s] = a[i]
                S2[row, s] = b[i]

    return kernel


@tilelang.jit
def finish(M, N):
    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "float32"),
        S1: T.Tensor((M, SPLITS), "float32"),
        S2: T.Tensor((M, SPLITS), "float32"),
        Mean: T.Tensor((M,), "float32"),
        Std: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 32), threads=32) as bm:
            a = T.alloc_fragment((32,), "float32")
            b = T.alloc_fragment((32,), "float32")
            T.clear(a)
            T.clear(b)
            for s in T.serial(SPLITS):
                for i in T.Parallel(32):
                    if bm * 32 + i < M:
                        a[i] += S1[bm * 32 + i, s]
                        b[i] += S2[bm * 32 + i, s]
            for i in T.Parallel(32):
                if bm * 32 + i < M:
                    Mean[bm * 32 + i] = X[bm * 32 + i, 0] + a[i] / N
                    Std[bm * 32 + i] = T.sqrt((b[i] - a[i] * a[i] / N) / (N - 1))

    return kernel


def row_moments(x):
    M, N = x.shape
    s1 = torch.empty(M, SPLITS, device="cuda")
    s2 = torch.empty(M, SPLITS, device="cuda")
    mean = torch.empty(M, device="cuda")
    std = torch.empty(M, device="cuda")
    partial_sums(M, N)(x, s1, s2)
    finish(M, N)(x, s1, s2, mean, std)
    return mean, std


torch.manual_seed(8)
failed = False
for M, N in [(4, 384), (35, 500), (3, 77)]:
    x = torch.randn(M, N, device="cuda") + 100.0 * torch.rand(M, 1, device="cuda")
    mean, std = row_moments(x)
    e_mean = (mean - x.double().mean(1)).abs().max().item()
    e_std = (std / x.double().std(1) - 1).abs().max().item()
    print(f"{M}x{N}: mean error {e_mean:.1e}, relative std error {e_std:.1e}")
    failed |= e_mean > 1e-4 or e_std > 1e-4
if failed:
    sys.exit("row moments are off")
