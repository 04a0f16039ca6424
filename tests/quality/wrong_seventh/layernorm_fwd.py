"""LayerNorm forward, one pass over padded rows; also stores mean / rstd for the backward pass."""
import torch
import tilelang
import tilelang.language as T


def next_pow2(n):
    p = 1
    while p < n:
        p *= 2
    return p


def layernorm_kernel(M, N, block_M=8, eps=1e-5, dtype="float16"):
    BN = next_pow2(N)

    @T.prim_func
    def layernorm(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
        Mean: T.Tensor((M,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, BN), "float32")
            xc = T.alloc_fragment((block_M, BN), "float32")
            sq = T.alloc_fragment((block_M, BN), "float32")
            mean = T.alloc_fragment((block_M,), "float32")
            rstd = T.alloc_fragment((block_M,), "float32")

            for i, j in T.Parallel(block_M, BN):
                if bx * block_M + i < M and j < N:
                    x[i, j] = T.cast(X[bx * block_M + i, j], "float32")
                else:
                    x[i, j] = 0.0
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block_M):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(block_M, BN):
                xc[i, j] = x[i, j] - mean[i]  # BUG
                sq[i, j] = xc[i, j] * xc[i, j]  # BUG
            T.reduce_sum(sq, rstd, dim=1)
            for i in T.Parallel(block_M):
                rstd[i] = T.rsqrt(rstd[i] / N + eps)

            for i, j in T.Parallel(block_M, BN):
                if bx * block_M + i < M and j < N:
                    Y[bx * block_M + i, j] = T.cast(
                        xc[i, j] * rstd[i] * T.cast(W[j], "float32") + T.cast(B[j], "float32"), dtype
                    )
            for i in T.Parallel(block_M):
                if bx * block_M + i < M:
                    Mean[bx * block_M + i] = mean[i]
                    Rstd[bx * block_M + i] = rstd[i]

    return tilelang.compile(layernorm, out_idx=[3, 4, 5])


def layernorm_ref(x, w, b, eps=1e-5):
    xf = x.float()
    mean = xf.mean(-1)
    rstd = torch.rsqrt(xf.var(-1, unbiased=False) + eps)
    y = (xf - mean[:, None]) * rstd[:, None] * w.float() + b.float()
    return y.to(x.dtype), mean, rstd


def check(M, N):
    x = torch.randn(M, N, device="cuda", dtype=torch.float16) + 0.75
    w = torch.rand(N, device="cuda", dtype=torch.float16) + 0.5
    b = torch.randn(N, device="cuda", dtype=torch.float16) * 0.1
    y, mean, rstd = layernorm_kernel(M, N)(x, w, b)
    y_ref, mean_ref, rstd_ref = layernorm_ref(x, w, b)
    torch.testing.assert_close(mean, mean_ref, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(y, y_ref, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(rstd, rstd_ref, rtol=1e-3, atol=1e-3)
    print(f"layernorm {M}x{N} passed")


if __name__ == "__main__":
    torch.manual_seed(0)
    check(32, 256)
    check(30, 200)
