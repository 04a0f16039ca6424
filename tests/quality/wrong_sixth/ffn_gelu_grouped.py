"""Linear + bias + GELU(tanh), grouped tile order for L2 reuse."""
import math

import torch
import tilelang
import tilelang.language as T


def linear_gelu(M, N, K, block_M=32, block_N=32, block_K=32, group_M=4, dtype="float16", accum="float32"):
    num_m = (M + block_M - 1) // block_M
    num_n = (N + block_N - 1) // block_N
    per_group = group_M * num_n
    c0 = math.sqrt(2.0 / math.pi)

    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        bias: T.Tensor((N,), accum),
        Y: T.Tensor((M, N), accum),
    ):
        with T.Kernel(num_m * num_n, threads=128) as pid:
            X_s = T.alloc_shared((block_M, block_K), dtype)
            W_s = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum)

            first_m = (pid // per_group) * group_M
            rows_here = T.min(num_m - first_m, group_M)
            pid_m = first_m + (pid % per_group) % rows_here
            pid_n = (pid % per_group) // group_M  # BUG

            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[pid_m * block_M, ko * block_K], X_s)
                T.copy(W[pid_n * block_N, ko * block_K], W_s)
                T.gemm(X_s, W_s, acc, transpose_B=True)

            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = acc[i, j] + bias[pid_n * block_N + j]
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = 0.5 * acc[i, j] * (
                    1.0 + T.tanh(c0 * (acc[i, j] + 0.044715 * acc[i, j] * acc[i, j] * acc[i, j]))
                )
            T.copy(acc, Y[pid_m * block_M, pid_n * block_N])

    return main


def ref_linear_gelu(x, w, b):
    return torch.nn.functional.gelu(x.float() @ w.float().T + b, approximate="tanh")


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N, K = 224, 64, 64
    kernel = tilelang.compile(linear_gelu(M, N, K))
    x = torch.randn(M, K, device="cuda").half()
    w = (torch.randn(N, K, device="cuda") / 8).half()
    b = torch.randn(N, device="cuda")
    y = torch.zeros(M, N, device="cuda")
    kernel(x, w, b, y)
    torch.testing.assert_close(y, ref_linear_gelu(x, w, b), rtol=1e-2, atol=1e-2)
    print("ok")
