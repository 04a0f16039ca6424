"""GroupNorm of (batch, channels, length): one block normalizes one group of channels."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def group_norm(batch, channels, length, groups, eps=1e-5):
    size = channels // groups
    count = size * length

    @T.prim_func
    def kernel(
        X: T.Tensor((batch, channels, length), "float32"),
        W: T.Tensor((channels,), "float32"),
        B: T.Tensor((channels,), "float32"),
        Y: T.Tensor((batch, channels, length), "float32"),
    ):
        with T.Kernel(groups, batch, threads=64) as (g, b):
            x = T.alloc_fragment((count,), "float32")
            squares = T.alloc_fragment((count,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            var = T.alloc_fragment((1,), "float32")
            for e in T.Parallel(count):
                x[e] = X[b, g * size + e // length, e % length]
            T.reduce_sum(x, mean, dim=0)
            for e in T.Parallel(count):
                squares[e] = (x[e] - mean[0] / count) * (x[e] - mean[0] / count)
            T.reduce_sum(squares, var, dim=0)
            for e in T.Parallel(count):
                x[e] = (x[e] - mean[0] / count) * T.rsqrt(var[0] / count + eps)
            for e in T.Parallel(count):
                channel = g * size + e // length
                Y[b, channel, e % length] = x[e] * W[channel] + B[channel]

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    batch, channels, length, groups = 2, 24, 32, 4
    x = torch.randn(batch, channels, length, device="cuda") + 2.0
    w = torch.randn(channels, device="cuda")
    b = torch.randn(channels, device="cuda")
    y = group_norm(batch, channels, length, groups)(x, w, b)
    torch.testing.assert_close(y, torch.nn.functional.group_norm(x, groups, w, b), rtol=1e-4, atol=1e-4)
    print("group norm ok")
