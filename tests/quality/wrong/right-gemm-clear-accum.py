"""Batched GEMM whose first product overwrites the accumulator, so nothing clears it."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def bmm(batch, M, N, K, block=64, depth=32):
    @T.prim_func
    def kernel(
        A: T.Tensor((batch, M, K), "float16"),
        B: T.Tensor((batch, N, K), "float16"),
        C: T.Tensor((batch, M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), batch, threads=128) as (bx, by, bz):
            a = T.alloc_shared((block, depth), "float16")
            b = T.alloc_shared((block, depth), "float16")
            acc = T.alloc_fragment((block, block), "float32")
            for k in T.serial(T.ceildiv(K, depth)):
                T.copy(A[bz, by * block, k * depth], a)
                T.copy(B[bz, bx * block, k * depth], b)
                T.gemm(a, b, acc, transpose_B=True, clear_accum=k == 0)
            T.copy(acc, C[bz, by * block, bx * block])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    a = torch.randn(3, 64, 128, device="cuda", dtype=torch.float16)
    b = torch.randn(3, 128, 128, device="cuda", dtype=torch.float16)
    c = bmm(3, 64, 128, 128)(a, b)
    torch.testing.assert_close(c, a.float() @ b.float().transpose(1, 2), rtol=1e-3, atol=1e-3)
    print("bmm ok")
