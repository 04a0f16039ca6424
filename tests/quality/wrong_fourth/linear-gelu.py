"""Linear layer in half precision with its bias and a tanh GELU fused into the store."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def linear_gelu(M, N, K, block_M=32, block_N=64, block_K=32):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        W: T.Tensor((N, K), "float16"),
        Bias: T.Tensor((N,), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            W_shared = T.alloc_shared((block_N, block_K), "float16")
            bias_shared = T.alloc_shared((block_N,), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for j in T.Parallel(block_N):
                bias_shared[j] = Bias[j]  # BUG
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = acc[i, j] + T.Cast("float32", bias_shared[j])
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = 0.5 * acc[i, j] * (
                    1.0 + T.tanh(0.7978845608 * (acc[i, j] + 0.044715 * acc[i, j] * acc[i, j] * acc[i, j]))
                )
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    torch.manual_seed(3)
    M, N, K = 64, 128, 64
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    w = torch.randn(N, K, device="cuda", dtype=torch.float16) * 0.1
    bias = torch.randn(N, device="cuda", dtype=torch.float16)
    out = linear_gelu(M, N, K)(a, w, bias)
    want = torch.nn.functional.gelu(a.float() @ w.float().T + bias.float(), approximate="tanh")
    torch.testing.assert_close(out.float(), want, rtol=1e-2, atol=1e-2)
    print("linear ok")
