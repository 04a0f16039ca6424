"""Batched GEMM: each block keeps its tile position and walks over the batch."""

import tilelang
import tilelang.language as T
import torch


def bmm(batch, M, N, K, bm=64, bn=64, bk=32):
    @T.prim_func
    def main(
        A: T.Tensor((batch, M, K), "float16"),
        B: T.Tensor((batch, K, N), "float16"),
        C: T.Tensor((batch, M, N), "float32"),
    ):
        with T.Kernel(N // bn, M // bm, threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)  # BUG
            for z in T.serial(batch):  # BUG
                for k in T.serial(K // bk):
                    T.copy(A[z, by * bm, k * bk], a)
                    T.copy(B[z, k * bk, bx * bn], b)
                    T.gemm(a, b, acc)
                T.copy(acc, C[z, by * bm, bx * bn])

    return main


if __name__ == "__main__":
    torch.manual_seed(1)
    batch, M, N, K = 6, 128, 192, 96
    kernel = tilelang.compile(bmm(batch, M, N, K), out_idx=[2])
    a = torch.randn(batch, M, K, device="cuda").half()
    b = torch.randn(batch, K, N, device="cuda").half()
    c = kernel(a, b)
    ref = torch.bmm(a.float(), b.float())
    assert torch.allclose(c, ref, rtol=1e-3, atol=1e-2), f"max error {(c - ref).abs().max().item():.4f}"
    print("bmm ok")
