"""Split-K in two kernels: partial products of every slice of K, then their sum."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def partial_products(M, N, K, splits, bm=64, bn=64, bk=32):
    depth = K // splits

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        P: T.Tensor((splits, M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), splits, threads=128) as (bx, by, bz):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(depth, bk), num_stages=2):
                T.copy(A[by * bm, bz * bk + k * bk], a)  # BUG
                T.copy(B[bz * bk + k * bk, bx * bn], b)  # BUG
                T.gemm(a, b, acc)
            T.copy(acc, P[bz, by * bm, bx * bn])

    return kernel


@tilelang.jit(out_idx=[1])
def sum_splits(M, N, splits, bm=32, bn=64):
    @T.prim_func
    def kernel(P: T.Tensor((splits, M, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for s in T.serial(splits):
                for i, j in T.Parallel(bm, bn):
                    acc[i, j] += P[s, by * bm + i, bx * bn + j]
            T.copy(acc, C[by * bm, bx * bn])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N, K, splits = 128, 64, 512, 4
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    b = torch.randn(K, N, device="cuda", dtype=torch.float16)
    partial = partial_products(M, N, K, splits)(a, b)
    c = sum_splits(M, N, splits)(partial)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    print("split-K ok")
