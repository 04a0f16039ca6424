"""Split-K GEMM with a bias: the splits add their partial tiles into a zeroed output."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def splitk_linear(M, N, K, split, block_M=32, block_N=32, block_K=32):
    part = K // split

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        Bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(part, block_K), num_stages=2):
                T.copy(A[by * block_M, bz * part + k * block_K], A_shared)
                T.copy(B[bz * part + k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = acc[i, j] + Bias[bx * block_N + j]  # BUG
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[by * block_M + i, bx * block_N + j], acc[i, j])

    return main


if __name__ == "__main__":
    torch.manual_seed(5)
    M, N, K, split = 64, 64, 256, 4
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    b = torch.randn(K, N, device="cuda", dtype=torch.float16)
    bias = torch.randn(N, device="cuda")
    c = torch.zeros(M, N, device="cuda")
    splitk_linear(M, N, K, split)(a, b, bias, c)
    want = a.float() @ b.float() + bias
    worst = (c - want).abs().max().item()
    assert worst < 2e-2, f"max difference {worst}"
    print("split-k ok")
