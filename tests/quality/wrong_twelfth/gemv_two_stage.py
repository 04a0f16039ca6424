"""y = W x for tall K: stage one writes a partial per K range, stage two adds them in a fixed order."""
import sys

import torch
import tilelang
import tilelang.language as T


def partial_kernel(N, K, split, rows=16, bk=32):
    span = K // split

    @T.prim_func
    def partials(
        W: T.Tensor((N, K), "float32"),
        x: T.Tensor((K,), "float32"),
        P: T.Tensor((split, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, rows), split, threads=64) as (bn, bs):
            prod = T.alloc_fragment((rows, bk), "float32")
            tile = T.alloc_fragment((rows,), "float32")
            acc = T.alloc_fragment((rows,), "float32")
            T.clear(acc)
            for ko in T.serial(T.ceildiv(span, bk)):
                for i, j in T.Parallel(rows, bk):
                    local = ko * bk + j
                    k = bs * span + local
                    if bn * rows + i < N and local < span and k < K:
                        prod[i, j] = W[bn * rows + i, k] * x[k]
                    else:
                        prod[i, j] = 0.0
                T.reduce_sum(prod, tile, dim=1)
                for i in T.Parallel(rows):
                    acc[i] += tile[i]
            for i in T.Parallel(rows):
                if bn * rows + i < N:
                    P[bs, bn * rows + i] = acc[i]

    return partials


def finish_kernel(N, split, block=64):
    @T.prim_func
    def finish(P: T.Tensor((split, N), "float32"), y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bn:
            acc = T.alloc_fragment((block,), "float32")
            T.clear(acc)
            for s in T.serial(split):
                for i in T.Parallel(block):
                    if bn * block + i < N:
                        acc[i] += P[s, bn * block + i]
            for i in T.Parallel(block):
                if bn * block + i < N:
                    y[bn * block + i] = acc[i]

    return finish


def gemv(W, x, split):
    N, K = W.shape
    stage1 = tilelang.compile(partial_kernel(N, K, split), out_idx=[2])
    stage2 = tilelang.compile(finish_kernel(N, split), out_idx=[1])
    return stage2(stage1(W, x))


torch.manual_seed(3)
bad = 0
for N, K, split in [(64, 256, 4), (40, 250, 4), (50, 300, 5), (33, 203, 3)]:
    W = torch.randn(N, K, device="cuda")
    x = torch.randn(K, device="cuda")
    got = gemv(W, x, split).double()
    want = W.double() @ x.double()
    err = ((got - want).norm() / want.norm()).item()
    print(f"N={N} K={K} split={split}: {err:.2e}")
    if err > 1e-5:
        bad += 1
sys.exit(bad)
