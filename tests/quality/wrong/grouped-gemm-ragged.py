"""Grouped GEMM over ragged groups: a block finds its rows from the offsets, and writes those of its group alone."""

import tilelang
import tilelang.language as T
import torch


def ragged_gemm(rows, groups, longest, N, K, block_M=32, block_N=64, block_K=64):
    @T.prim_func
    def main(
        A: T.Tensor((rows, K), "float16"),
        B: T.Tensor((groups, N, K), "float16"),
        offsets: T.Tensor((groups + 1,), "int32"),
        C: T.Tensor((rows, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(longest, block_M), groups, threads=128) as (bx, by, g):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            first = offsets[g] + by * block_M
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, block_K)):
                for i, j in T.Parallel(block_M, block_K):
                    a[i, j] = T.if_then_else(first + i < rows, A[first + i, k * block_K + j], 0)
                T.copy(B[g, bx * block_N, k * block_K], b)
                T.gemm(a, b, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                if first + i < offsets[g + 1] - offsets[g]:  # BUG
                    C[first + i, bx * block_N + j] = acc[i, j]

    return main


if __name__ == "__main__":
    torch.manual_seed(6)
    sizes = [40, 7, 64, 25]
    offsets = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()], dtype=torch.int32, device="cuda")
    N, K = 64, 128
    a = torch.randn(sum(sizes), K, device="cuda", dtype=torch.float16)
    b = torch.randn(len(sizes), N, K, device="cuda", dtype=torch.float16)
    c = torch.zeros(sum(sizes), N, device="cuda")
    tilelang.compile(ragged_gemm(sum(sizes), len(sizes), max(sizes), N, K))(a, b, offsets, c)
    start = 0
    for g, size in enumerate(sizes):
        expected = a[start : start + size].float() @ b[g].float().t()
        torch.testing.assert_close(c[start : start + size], expected, rtol=1e-3, atol=1e-3)
        start += size
    print("ragged gemm ok")
