"""Split-K with atomics: the blocks of one output tile add their slices of K into fp32 memory."""

import tilelang
import tilelang.language as T
import torch


def splitk_gemm(M, N, K, splits, bm=64, bn=64, bk=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), splits, threads=128) as (bx, by, bz):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            start = bz * (K // splits)
            for k in T.serial(T.ceildiv(K - start, bk)):  # BUG
                T.copy(A[by * bm, start + k * bk], a)
                T.copy(B[start + k * bk, bx * bn], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(bm, bn):
                T.atomic_add(C[by * bm + i, bx * bn + j], acc[i, j])

    return main


def run(M, N, K, splits):
    kernel = tilelang.compile(splitk_gemm(M, N, K, splits))
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    b = torch.randn(K, N, device="cuda", dtype=torch.float16)
    c = torch.zeros(M, N, device="cuda", dtype=torch.float32)
    kernel(a, b, c)
    expected = a.float() @ b.float()
    difference = (c - expected).norm() / expected.norm()
    print(f"{M} x {N} x {K} in {splits}: relative difference {difference.item():.2e}")
    assert difference < 1e-4


if __name__ == "__main__":
    torch.manual_seed(0)
    run(64, 64, 128, 1)
    run(128, 128, 512, 4)
