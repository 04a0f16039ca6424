"""Linear layer whose epilogue also gathers what the next BatchNorm needs: column sums and sums of squares."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def linear_stats(M, N, K, block_M=32, block_N=32, block_K=32, slope=0.1):
    @T.macro
    def column_stats(y, s1, s2, tmp, bx, by, P1, P2):
        T.reduce_sum(y, s1, dim=0)
        for i, j in T.Parallel(block_M, block_N):
            tmp[i, j] = y[i, j] * y[i, j]
        T.reduce_sum(tmp, s2, dim=0)
        for j in T.Parallel(block_N):
            if bx * block_N + j < N:
                P1[by, bx * block_N + j] = s1[j]
                P2[by, bx * block_N + j] = s2[j]

    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float16"),
        W: T.Tensor((N, K), "float16"),
        bias: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
        P1: T.Tensor(((M + block_M - 1) // block_M, N), "float32"),
        P2: T.Tensor(((M + block_M - 1) // block_M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            X_s = T.alloc_shared((block_M, block_K), "float16")
            W_s = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            tmp = T.alloc_fragment((block_M, block_N), "float32")
            s1 = T.alloc_fragment((block_N,), "float32")
            s2 = T.alloc_fragment((block_N,), "float32")

            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[by * block_M, k * block_K], X_s)
                T.copy(W[bx * block_N, k * block_K], W_s)
                T.gemm(X_s, W_s, acc, transpose_B=True)

            # bias and leaky ReLU
            for i, j in T.Parallel(block_M, block_N):
                v = acc[i, j] + T.if_then_else(bx * block_N + j < N, bias[bx * block_N + j], 0.0)
                acc[i, j] = T.max(v, slope * v)

            column_stats(acc, s1, s2, tmp, bx, by, P1, P2)
            T.copy(acc, Y[by * block_M, bx * block_N])

    return main


def run(x, w, b):
    M, K = x.shape
    N = w.shape[0]
    tiles = (M + 31) // 32
    y = torch.empty(M, N, device=x.device)
    p1 = torch.empty(tiles, N, device=x.device)
    p2 = torch.empty(tiles, N, device=x.device)
    linear_stats(M, N, K)(x, w, b, y, p1, p2)
    mean = p1.sum(0) / M
    var = p2.sum(0) / M - mean * mean
    return y, mean, var


def main():
    torch.manual_seed(3)
    for M, N, K in [(64, 64, 64), (128, 80, 96), (100, 64, 128)]:
        x = torch.randn(M, K, device="cuda").half()
        w = (torch.randn(N, K, device="cuda") / K**0.5).half()
        b = torch.randn(N, device="cuda")
        y, mean, var = run(x, w, b)
        ref = torch.nn.functional.leaky_relu(x.float() @ w.float().t() + b, 0.1)
        torch.testing.assert_close(y, ref, rtol=2e-3, atol=2e-3)
        torch.testing.assert_close(mean, ref.mean(0), rtol=2e-3, atol=2e-3)
        torch.testing.assert_close(var, ref.var(0, unbiased=False), rtol=5e-3, atol=5e-3)
        print(f"{M}x{N}x{K} ok")


if __name__ == "__main__":
    main()
