"""Split-K with fp32 atomics into a zeroed output; the last slice is shorter than the others."""

import tilelang
import tilelang.language as T
import torch


def splitk(M, N, K, splits, bm=64, bn=64, bk=32):
    steps = (K + bk - 1) // bk
    per_split = (steps + splits - 1) // splits

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), splits, threads=128) as (bx, by, bz):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.serial(T.min(per_split, steps - bz * per_split)):
                T.copy(A[by * bm, (bz * per_split + k) * bk], a)
                T.copy(B[(bz * per_split + k) * bk, bx * bn], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(bm, bn):
                T.atomic_add(C[by * bm + i, bx * bn + j], acc[i, j])

    return main


torch.manual_seed(0)
M, N, K, splits = 128, 64, 320, 4
kernel = tilelang.compile(splitk(M, N, K, splits))
a = torch.randn(M, K, device="cuda").half()
b = torch.randn(K, N, device="cuda").half()
c = torch.zeros(M, N, device="cuda")
kernel(a, b, c)
assert torch.allclose(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
print("split-K ok")
