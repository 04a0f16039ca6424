"""Cosine similarity of every row of one matrix with every row of another."""

import tilelang
import tilelang.language as T
import torch
from tilelang.utils.tensor import torch_assert_close


@tilelang.jit(out_idx=[2])
def cosine(M, N, dim, block=64, eps=1e-12):
    @T.prim_func
    def main(
        A: T.Tensor((M, dim), "float16"),
        B: T.Tensor((N, dim), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, dim), "float16")
            b = T.alloc_shared((block, dim), "float16")
            square = T.alloc_fragment((block, dim), "float32")
            square_b = T.alloc_fragment((block, dim), "float32")
            length_a = T.alloc_fragment((block,), "float32")
            length_b = T.alloc_fragment((block,), "float32")
            norm_a = T.alloc_shared((block,), "float32")
            norm_b = T.alloc_shared((block,), "float32")
            dot = T.alloc_fragment((block, block), "float32")
            T.copy(A[by * block, 0], a)
            T.copy(B[bx * block, 0], b)
            for i, k in T.Parallel(block, dim):
                square[i, k] = T.Cast("float32", a[i, k]) * T.Cast("float32", a[i, k])
            T.reduce_sum(square, length_a, dim=1)
            for i, k in T.Parallel(block, dim):
                square_b[i, k] = T.Cast("float32", b[i, k]) * T.Cast("float32", b[i, k])
            T.reduce_sum(square_b, length_b, dim=0)  # BUG
            T.copy(length_a, norm_a)
            T.copy(length_b, norm_b)
            T.clear(dot)
            T.gemm(a, b, dot, transpose_B=True)
            for i, j in T.Parallel(block, block):
                dot[i, j] = dot[i, j] * T.rsqrt(norm_a[i] * norm_b[j] + eps)
            T.copy(dot, C[by * block, bx * block])

    return main


if __name__ == "__main__":
    torch.manual_seed(16)
    M, N, dim = 128, 192, 64
    a = torch.randn(M, dim, device="cuda").half()
    b = (torch.randn(N, dim, device="cuda") * torch.rand(N, 1, device="cuda").add(0.5)).half()
    c = cosine(M, N, dim)(a, b)
    an, bn = (torch.nn.functional.normalize(t.float(), dim=1) for t in (a, b))
    torch_assert_close(c, an @ bn.t(), rtol=1e-3, atol=1e-3, max_mismatched_ratio=0)
    print("cosine ok")
