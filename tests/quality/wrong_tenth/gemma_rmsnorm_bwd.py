"""Backward of Gemma's RMSNorm, y = x * rstd * (1 + w)."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4, 5])
def rmsnorm_bwd(M, N, rows=8):
    blocks = M // rows

    @T.prim_func
    def bwd(
        X: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
        dY: T.Tensor((M, N), "float32"),
        dX: T.Tensor((M, N), "float32"),
        dW_part: T.Tensor((blocks, N), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as b:
            xhat = T.alloc_fragment((rows, N), "float32")
            dy = T.alloc_fragment((rows, N), "float32")
            tmp = T.alloc_fragment((rows, N), "float32")
            dw = T.alloc_fragment((N,), "float32")
            dot = T.alloc_fragment((rows,), "float32")

            T.copy(X[b * rows, 0], xhat)
            T.copy(dY[b * rows, 0], dy)
            for i, j in T.Parallel(rows, N):
                xhat[i, j] *= Rstd[b * rows + i]

            for i, j in T.Parallel(rows, N):
                tmp[i, j] = dy[i, j] * xhat[i, j]
            T.reduce_sum(tmp, dw, dim=0)
            T.copy(dw, dW_part[b, 0])

            for i, j in T.Parallel(rows, N):
                tmp[i, j] = tmp[i, j] * W[j]
            T.reduce_sum(tmp, dot, dim=1)
            for i, j in T.Parallel(rows, N):
                dx = dy[i, j] * (1.0 + W[j]) - xhat[i, j] * dot[i] / N
                dX[b * rows + i, j] = dx * Rstd[b * rows + i]

    return bwd


def gemma_norm(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1.0 + w)


def main():
    torch.manual_seed(42)
    M, N, eps = 32, 128, 1e-6
    x = torch.randn(M, N, device="cuda", requires_grad=True)
    w = (0.2 * torch.randn(N, device="cuda")).requires_grad_()
    dy = torch.randn(M, N, device="cuda") + 0.3 * x.detach()
    gemma_norm(x, w, eps).backward(dy)

    rstd = torch.rsqrt(x.detach().pow(2).mean(-1) + eps)
    dx, dw_part = rmsnorm_bwd(M, N)(x.detach(), w.detach(), rstd, dy)
    assert torch.allclose(dw_part.sum(0), w.grad, rtol=1e-4, atol=1e-4), "dw"
    assert torch.allclose(dx, x.grad, rtol=1e-4, atol=1e-4), "dx"
    print("All checks pass.")


if __name__ == "__main__":
    main()
