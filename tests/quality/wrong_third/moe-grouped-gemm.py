"""Grouped GEMM: tokens sorted by expert, every expert with its own weights and its own number of tokens."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[4])
def grouped_gemm(tokens, experts, longest, N, K, block_M=32, block_N=32, block_K=32):
    @T.prim_func
    def main(
        X: T.Tensor((tokens, K), "float16"),
        W: T.Tensor((experts, N, K), "float16"),
        Sizes: T.Tensor((experts,), "int32"),
        Offsets: T.Tensor((experts,), "int32"),
        Y: T.Tensor((tokens, N), "float32"),
    ):
        with T.Kernel(N // block_N, T.ceildiv(longest, block_M), experts, threads=128) as (bx, by, e):
            x = T.alloc_shared((block_M, block_K), "float16")
            w = T.alloc_shared((block_N, block_K), "float16")
            y = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(y)
            for ko in T.Pipelined(K // block_K, num_stages=2):
                for i, k in T.Parallel(block_M, block_K):
                    x[i, k] = T.if_then_else(
                        by * block_M + i < Sizes[e],
                        X[by * block_M + i, ko * block_K + k],  # BUG
                        T.cast(0, "float16"),
                    )
                T.copy(W[e, bx * block_N, ko * block_K], w)
                T.gemm(x, w, y, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                if by * block_M + i < Sizes[e]:
                    Y[Offsets[e] + by * block_M + i, bx * block_N + j] = y[i, j]

    return main


if __name__ == "__main__":
    torch.manual_seed(55)
    sizes = [37, 5, 64, 22]
    N, K = 64, 64
    x = torch.randn(sum(sizes), K, device="cuda").half()
    w = torch.randn(len(sizes), N, K, device="cuda").half()
    counts = torch.tensor(sizes, dtype=torch.int32, device="cuda")
    offsets = (torch.cumsum(counts, 0) - counts).to(torch.int32)
    y = grouped_gemm(sum(sizes), len(sizes), max(sizes), N, K)(x, w, counts, offsets)
    ref = torch.cat([part.float() @ w[e].float().t() for e, part in enumerate(torch.split(x, sizes))])
    torch.testing.assert_close(y, ref, rtol=1e-2, atol=1e-2)
    print("grouped gemm ok")
