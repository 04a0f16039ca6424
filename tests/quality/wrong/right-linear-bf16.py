"""Linear layer with bias and ReLU in bf16; the tolerance is that of a bf16 result."""

import tilelang
import tilelang.language as T
import torch
from tilelang.utils.tensor import torch_assert_close


def linear_relu(M, N, K, block_M=64, block_N=64, block_K=32, dtype="bfloat16"):
    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        bias: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x = T.alloc_shared((block_M, block_K), dtype)
            w = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.cast(bias[bx * block_N + j], "float32")
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(X[by * block_M, k * block_K], x)
                T.copy(W[bx * block_N, k * block_K], w)
                T.gemm(x, w, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.max(acc[i, j], 0.0)
            T.copy(acc, Y[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N, K = 128, 128, 256
    x = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(N, K, device="cuda", dtype=torch.bfloat16)
    bias = torch.randn(N, device="cuda", dtype=torch.bfloat16)
    y = tilelang.compile(linear_relu(M, N, K), out_idx=[3])(x, w, bias)
    expected = torch.relu(x.float() @ w.float().t() + bias.float()).to(torch.bfloat16)
    torch_assert_close(y, expected, rtol=1e-2, atol=1e-2, max_mismatched_ratio=0)
    print("linear ok")
