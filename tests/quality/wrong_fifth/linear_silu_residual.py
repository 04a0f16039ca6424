import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def fused_linear(M, N, K, block_M=32, block_N=32, block_K=32, GROUP_M=2, dtype="float16", accum_dtype="float32"):
    num_pid_m = (M + block_M - 1) // block_M
    num_pid_n = (N + block_N - 1) // block_N
    num_pid_in_group = GROUP_M * num_pid_n

    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        bias: T.Tensor((N,), dtype),
        R: T.Tensor((M, N), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(num_pid_m * num_pid_n, threads=128) as pid:
            X_s = T.alloc_shared((block_M, block_K), dtype)
            W_s = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum_dtype)

            # grouped ordering for L2 reuse, same scheme as the Triton tutorial
            group_id = pid // num_pid_in_group
            first_pid_m = group_id * GROUP_M
            group_size_m = T.min(num_pid_m - first_pid_m, GROUP_M)
            pid_m = first_pid_m + (pid % num_pid_in_group) % group_size_m
            pid_n = (pid % num_pid_in_group) // GROUP_M  # BUG

            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[pid_m * block_M, ko * block_K], X_s)
                T.copy(W[pid_n * block_N, ko * block_K], W_s)
                T.gemm(X_s, W_s, acc, transpose_B=True)

            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = acc[i, j] + bias[pid_n * block_N + j]
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = acc[i, j] / (1.0 + T.exp(-acc[i, j])) + R[pid_m * block_M + i, pid_n * block_N + j]
            T.copy(acc, Y[pid_m * block_M, pid_n * block_N])

    return main


def reference(x, w, bias, r):
    h = x.float() @ w.float().t() + bias.float()
    return torch.nn.functional.silu(h) + r.float()


def main():
    torch.manual_seed(0)
    M, N, K = 96, 128, 96
    x = torch.randn(M, K, device="cuda", dtype=torch.float16)
    w = torch.randn(N, K, device="cuda", dtype=torch.float16) * 0.1
    bias = torch.randn(N, device="cuda", dtype=torch.float16)
    r = torch.randn(M, N, device="cuda", dtype=torch.float16)
    y = fused_linear(M, N, K)(x, w, bias, r)
    torch.testing.assert_close(y.float(), reference(x, w, bias, r), rtol=1e-2, atol=1e-2)
    print("ok")


if __name__ == "__main__":
    main()
