"""GroupNorm of (batch, channels, pixels), a block for each group of each sample."""

import tilelang
import tilelang.language as T
import torch

EPS = 1e-5


@tilelang.jit(out_idx=[3])
def group_norm(batch, channels, pixels, groups):
    width = channels // groups

    @T.prim_func
    def main(
        X: T.Tensor((batch, channels, pixels), "float32"),
        gamma: T.Tensor((channels,), "float32"),
        beta: T.Tensor((channels,), "float32"),
        Y: T.Tensor((batch, channels, pixels), "float32"),
    ):
        with T.Kernel(groups, batch, threads=128) as (g, n):
            x = T.alloc_fragment((width, pixels), "float32")
            d = T.alloc_fragment((width, pixels), "float32")
            per_channel = T.alloc_fragment((width,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            var = T.alloc_fragment((1,), "float32")
            T.copy(X[n, g * width, 0], x)
            T.reduce_sum(x, per_channel, dim=1)
            T.reduce_sum(per_channel, mean, dim=0)
            for i, j in T.Parallel(width, pixels):
                d[i, j] = x[i, j] - mean[0] / (width * pixels)
            for i, j in T.Parallel(width, pixels):
                x[i, j] = d[i, j] * d[i, j]
            T.reduce_sum(x, per_channel, dim=1)
            T.reduce_sum(per_channel, var, dim=0)
            for i, j in T.Parallel(width, pixels):
                d[i, j] = d[i, j] * T.rsqrt(var[0] / pixels + EPS)  # BUG
            for i, j in T.Parallel(width, pixels):
                Y[n, g * width + i, j] = d[i, j] * gamma[g * width + i] + beta[g * width + i]

    return main


if __name__ == "__main__":
    torch.manual_seed(5)
    batch, channels, pixels, groups = 4, 64, 64, 8
    x = torch.randn(batch, channels, pixels, device="cuda") * 2 + 1
    gamma = torch.randn(channels, device="cuda")
    beta = torch.randn(channels, device="cuda")
    y = group_norm(batch, channels, pixels, groups)(x, gamma, beta)
    expected = torch.nn.functional.group_norm(x, groups, gamma, beta, EPS)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
