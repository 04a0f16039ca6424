import torch
import tilelang
import tilelang.language as T


def next_pow2(n):
    return 1 << (n - 1).bit_length()


def ln_bwd(M, N, eps, rows=8):
    BN = next_pow2(N)

    @T.prim_func
    def ln_bwd_dx(
        X: T.Tensor((M, N), "float32"),
        DY: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        DX: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
            x = T.alloc_fragment((rows, BN), "float32")
            xhat = T.alloc_fragment((rows, BN), "float32")
            wdy = T.alloc_fragment((rows, BN), "float32")
            tmp = T.alloc_fragment((rows, BN), "float32")
            mean = T.alloc_fragment((rows,), "float32")
            rstd = T.alloc_fragment((rows,), "float32")
            c1 = T.alloc_fragment((rows,), "float32")
            c2 = T.alloc_fragment((rows,), "float32")

            for i, j in T.Parallel(rows, BN):
                if b * rows + i < M and j < N:
                    x[i, j] = X[b * rows + i, j]
                    wdy[i, j] = DY[b * rows + i, j] * W[j]
                else:
                    x[i, j] = 0.0
                    wdy[i, j] = 0.0

            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(rows):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(rows, BN):
                xhat[i, j] = x[i, j] - mean[i]  # BUG
            for i, j in T.Parallel(rows, BN):
                tmp[i, j] = xhat[i, j] * xhat[i, j]  # BUG
            T.reduce_sum(tmp, rstd, dim=1)
            for i in T.Parallel(rows):
                rstd[i] = T.rsqrt(rstd[i] / N + eps)
            for i, j in T.Parallel(rows, BN):
                xhat[i, j] = xhat[i, j] * rstd[i]

            for i, j in T.Parallel(rows, BN):
                tmp[i, j] = wdy[i, j] * xhat[i, j]
            T.reduce_sum(tmp, c1, dim=1)
            T.reduce_sum(wdy, c2, dim=1)
            for i, j in T.Parallel(rows, BN):
                if b * rows + i < M and j < N:
                    DX[b * rows + i, j] = (wdy[i, j] - (xhat[i, j] * c1[i] + c2[i]) / N) * rstd[i]

    return ln_bwd_dx


def torch_dx(x, dy, w, eps):
    xr = x.detach().clone().requires_grad_(True)
    y = torch.nn.functional.layer_norm(xr, (x.shape[1],), weight=w, eps=eps)
    y.backward(dy)
    return xr.grad


def run(M=50, N=96, eps=1e-5):
    torch.manual_seed(0)
    kernel = tilelang.compile(ln_bwd(M, N, eps), out_idx=[3])
    x = torch.randn(M, N, device="cuda") + 0.8
    dy = torch.randn(M, N, device="cuda")
    w = torch.rand(N, device="cuda") + 0.5
    dx = kernel(x, dy, w)
    torch.testing.assert_close(dx, torch_dx(x, dy, w, eps), rtol=1e-3, atol=1e-4)
    print("layernorm dx ok")


if __name__ == "__main__":
    run()
