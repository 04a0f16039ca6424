"""RMSNorm backward: dx, and dw as one partial row per block (summed by torch)."""
import sys

import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4, 5])
def rmsnorm_bwd(M, N, block_M=8, threads=128):
    BN = tilelang.next_power_of_2(N)
    blocks = T.ceildiv(M, block_M)
    f32 = "float32"

    @T.prim_func
    def kernel(
        DY: T.Tensor((M, N), f32),
        X: T.Tensor((M, N), f32),
        W: T.Tensor((N,), f32),
        Rstd: T.Tensor((M,), f32),
        DX: T.Tensor((M, N), f32),
        DWp: T.Tensor((blocks, N), f32),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            xhat = T.alloc_fragment((block_M, BN), f32)
            wdy = T.alloc_fragment((block_M, BN), f32)
            tmp = T.alloc_fragment((block_M, BN), f32)
            coef = T.alloc_fragment((block_M,), f32)
            dw = T.alloc_fragment((BN,), f32)
            rstd = T.alloc_fragment((block_M,), f32)

            for i in T.Parallel(block_M):
                rstd[i] = T.if_then_else(bx * block_M + i < M, Rstd[bx * block_M + i], 0.0)
            for i, j in T.Parallel(block_M, BN):
                if bx * block_M + i < M and j < N:
                    xhat[i, j] = X[bx * block_M + i, j] * rstd[i]
                    wdy[i, j] = DY[bx * block_M + i, j] * W[j]
                    tmp[i, j] = DY[bx * block_M + i, j] * X[bx * block_M + i, j] * rstd[i]
                else:
                    xhat[i, j] = 0.0
                    wdy[i, j] = 0.0
                    tmp[i, j] = 0.0
            T.reduce_sum(tmp, dw, dim=0)
            for j in T.Parallel(BN):
                if j < N:
                    DWp[bx, j] = dw[j]

            for i, j in T.Parallel(block_M, BN):
                tmp[i, j] = wdy[i, j] * xhat[i, j]
            T.reduce_sum(tmp, coef, dim=1)
            for i, j in T.Parallel(block_M, BN):
                if bx * block_M + i < M and j < N:
                    DX[bx * block_M + i, j] = wdy[i, j] * rstd[i] - xhat[i, j] * (coef[i] / N)

    return kernel


def run(M, N, eps=1e-6):
    x = (4.0 * torch.randn(M, N, device="cuda") + 1.0).requires_grad_()
    w = (1.0 + 0.3 * torch.randn(N, device="cuda")).requires_grad_()
    dy = torch.randn(M, N, device="cuda")
    rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    (x * rstd * w).backward(dy)

    dx, dwp = rmsnorm_bwd(M, N)(dy, x.detach(), w.detach(), rstd.detach().flatten())
    ex = ((dx - x.grad).norm() / x.grad.norm()).item()
    ew = ((dwp.sum(0) - w.grad).norm() / w.grad.norm()).item()
    print(f"{M}x{N}: rel err dx {ex:.1e} dw {ew:.1e}")
    return ex < 1e-4 and ew < 1e-4


if __name__ == "__main__":
    torch.manual_seed(5)
    results = [run(16, 128), run(21, 100)]
    sys.exit(0 if all(results) else 1)
