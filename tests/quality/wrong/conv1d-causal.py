"""Depthwise causal convolution over time, as in Mamba: y[t] = sum of w[k] * x[t - (K - 1) + k]."""

import tilelang
import tilelang.language as T
import torch
from helpers.compare import require_close


def causal_conv1d(length, channels, taps, block_t=64, block_c=32):
    @T.prim_func
    def main(
        x: T.Tensor((length, channels), "float32"),
        w: T.Tensor((channels, taps), "float32"),
        y: T.Tensor((length, channels), "float32"),
    ):
        with T.Kernel(T.ceildiv(channels, block_c), T.ceildiv(length, block_t), threads=128) as (bc, bt):
            acc = T.alloc_fragment((block_t, block_c), "float32")
            T.clear(acc)
            for k in T.serial(taps):
                for i, j in T.Parallel(block_t, block_c):
                    t = bt * block_t + i + (taps - 1) - k  # BUG
                    c = bc * block_c + j
                    acc[i, j] += T.if_then_else(t >= 0, x[t, c], 0.0) * w[c, k]
            T.copy(acc, y[bt * block_t, bc * block_c])

    return main


torch.manual_seed(0)
length, channels, taps = 128, 64, 4
kernel = tilelang.compile(causal_conv1d(length, channels, taps), out_idx=[2])
x = torch.randn(length, channels, device="cuda")
w = torch.randn(channels, taps, device="cuda")
y = kernel(x, w)
padded = torch.nn.functional.pad(x.t()[None], (taps - 1, 0))
expected = torch.nn.functional.conv1d(padded, w[:, None, :], groups=channels)[0].t()
require_close("causal conv1d", y, expected, rtol=1e-4, atol=1e-4)
