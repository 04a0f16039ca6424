"""Squared distances of all pairs by |x|^2 + |y|^2 - 2 x.y."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def pairwise(M, N, D, block=32):
    @T.prim_func
    def main(
        X: T.Tensor((M, D), "float16"),
        Y: T.Tensor((N, D), "float16"),
        Dist: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            x = T.alloc_shared((block, D), "float16")
            y = T.alloc_shared((block, D), "float16")
            sq = T.alloc_fragment((block, D), "float32")
            xx_f = T.alloc_fragment((block,), "float32")
            yy_f = T.alloc_fragment((block,), "float32")
            xx = T.alloc_shared((block,), "float32")
            yy = T.alloc_shared((block,), "float32")
            dot = T.alloc_fragment((block, block), "float32")
            T.copy(X[by * block, 0], x)
            T.copy(Y[bx * block, 0], y)
            for i, d in T.Parallel(block, D):
                sq[i, d] = T.cast(x[i, d], "float32") * T.cast(x[i, d], "float32")
            T.reduce_sum(sq, xx_f, dim=1)
            T.copy(xx_f, xx)
            for i, d in T.Parallel(block, D):
                sq[i, d] = T.cast(y[i, d], "float32") * T.cast(y[i, d], "float32")
            T.reduce_sum(sq, yy_f, dim=1)
            T.copy(yy_f, yy)
            T.clear(dot)
            T.gemm(x, y, dot, transpose_B=True)
            for i, j in T.Parallel(block, block):
                dot[i, j] = T.max(xx[i] + yy[i] - 2.0 * dot[i, j], 0.0)  # BUG
            T.copy(dot, Dist[by * block, bx * block])

    return main


if __name__ == "__main__":
    torch.manual_seed(19)
    M, N, D = 80, 64, 64
    x = torch.randn(M, D, device="cuda").half()
    y = torch.randn(N, D, device="cuda").half()
    dist = pairwise(M, N, D)(x, y)
    ref = (x.float()[:, None] - y.float()[None]).pow(2).sum(-1)
    bad = (dist - ref).abs() > 1e-2 + 1e-3 * ref
    if bad.any():
        raise AssertionError(f"{bad.sum().item()} of {bad.numel()} distances are off")
    print("distances ok")
