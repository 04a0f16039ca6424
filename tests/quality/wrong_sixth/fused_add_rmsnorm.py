# Fused residual add + RMSNorm (vLLM style): `residual` is updated in place,
# the inverse rms is returned for the backward pass.
import torch
import tilelang
import tilelang.language as T


def make_fused_add_rmsnorm(M, N, block_M=8, block_N=64, eps=1e-6):
    n_tiles = (N + block_N - 1) // block_N

    @T.prim_func
    def fused_add_rmsnorm(
        X: T.Tensor((M, N), "float32"),
        Residual: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
        Rstd: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            h = T.alloc_fragment((block_M, block_N), "float32")
            sq = T.alloc_fragment((block_M, block_N), "float32")
            acc = T.alloc_fragment((block_M,), "float32")
            rstd = T.alloc_fragment((block_M,), "float32")

            T.clear(acc)
            for t in T.serial(n_tiles):
                for i, j in T.Parallel(block_M, block_N):
                    h[i, j] = X[bx * block_M + i, t * block_N + j] + Residual[bx * block_M + i, t * block_N + j]
                for i, j in T.Parallel(block_M, block_N):
                    Residual[bx * block_M + i, t * block_N + j] = h[i, j]
                for i, j in T.Parallel(block_M, block_N):
                    sq[i, j] = h[i, j] * h[i, j]
                T.reduce_sum(sq, acc, dim=1, clear=False)

            for i in T.Parallel(block_M):
                rstd[i] = T.rsqrt(acc[i] / N + eps)
            T.copy(rstd, Rstd[bx * block_M])

            for t in T.serial(n_tiles):
                for i, j in T.Parallel(block_M, block_N):
                    h[i, j] = X[bx * block_M + i, t * block_N + j] + Residual[bx * block_M + i, t * block_N + j]  # BUG
                for i, j in T.Parallel(block_M, block_N):
                    Y[bx * block_M + i, t * block_N + j] = h[i, j] * rstd[i] * W[t * block_N + j]

    return fused_add_rmsnorm


def ref_fused_add_rmsnorm(x, residual, w, eps=1e-6):
    h = x + residual
    rstd = torch.rsqrt(h.pow(2).mean(dim=-1) + eps)
    return h * rstd[:, None] * w, h, rstd


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N = 64, 256
    kernel = tilelang.compile(make_fused_add_rmsnorm(M, N))

    x = torch.randn(M, N, device="cuda")
    res = torch.randn(M, N, device="cuda")
    w = 1 + 0.1 * torch.randn(N, device="cuda")
    y_ref, res_ref, rstd_ref = ref_fused_add_rmsnorm(x, res, w)

    y = torch.empty_like(x)
    rstd = torch.empty(M, device="cuda")
    kernel(x, res, w, y, rstd)

    torch.testing.assert_close(rstd, rstd_ref, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(res, res_ref, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(y, y_ref, rtol=1e-4, atol=1e-4)
    print("ok")
