"""RMSNorm backward: dx per row, dw as block partials summed by torch."""
import torch
import tilelang
import tilelang.language as T

EPS = 1e-6


@tilelang.jit(out_idx=[4, 5])
def rmsnorm_bwd(M, N, block_M=8):
    blocks = (M + block_M - 1) // block_M

    @T.macro
    def load_rows(src, dst, bm):
        for i, j in T.Parallel(block_M, N):
            if bm * block_M + i < M:
                dst[i, j] = src[bm * block_M + i, j]
            else:
                dst[i, j] = 0.0

    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
        dY: T.Tensor((M, N), "float32"),
        dX: T.Tensor((M, N), "float32"),
        dWp: T.Tensor((blocks, N), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as bm:
            x = T.alloc_shared((block_M, N), "float32")
            g = T.alloc_shared((block_M, N), "float32")
            tmp = T.alloc_fragment((block_M, N), "float32")
            rstd = T.alloc_shared((block_M,), "float32")
            dot = T.alloc_fragment((block_M,), "float32")
            dw = T.alloc_fragment((N,), "float32")

            load_rows(X, x, bm)
            load_rows(dY, g, bm)
            for i in T.Parallel(block_M):
                rstd[i] = T.if_then_else(bm * block_M + i < M, Rstd[bm * block_M + i], 0.0)

            # weight gradient of these rows
            T.clear(dw)
            for r in T.serial(block_M):
                for j in T.Parallel(N):
                    dw[j] += g[r, j] * x[r, j] * rstd[r]
            T.copy(dw, dWp[bm, 0:N])

            # dx = rstd * (w*dy - xhat * mean(w*dy*xhat))
            for i, j in T.Parallel(block_M, N):
                tmp[i, j] = g[i, j] * W[j] * x[i, j]
            T.reduce_sum(tmp, dot, dim=1)
            for i, j in T.Parallel(block_M, N):
                if bm * block_M + i < M:
                    dX[bm * block_M + i, j] = rstd[i] * (g[i, j] * W[j] - x[i, j] * rstd[i] * dot[i] / N)

    return main


def test(M, N):
    torch.manual_seed(M + N)
    x = (2.5 * torch.randn(M, N, device="cuda")).requires_grad_()
    w = (1 + 0.2 * torch.randn(N, device="cuda")).requires_grad_()
    dy = torch.randn(M, N, device="cuda")
    rstd = torch.rsqrt(x.detach().pow(2).mean(-1) + EPS)
    torch.nn.functional.rms_norm(x, (N,), w, EPS).backward(dy)

    dx, dw_part = rmsnorm_bwd(M, N)(x.detach(), w.detach(), rstd, dy)
    torch.testing.assert_close(dw_part.sum(0), w.grad, rtol=1e-4, atol=1e-4, msg=lambda m: "dw: " + m)
    torch.testing.assert_close(dx, x.grad, rtol=1e-4, atol=1e-5, msg=lambda m: "dx: " + m)


if __name__ == "__main__":
    for shape in ((16, 128), (21, 192)):
        test(*shape)
        print(shape, "ok")
