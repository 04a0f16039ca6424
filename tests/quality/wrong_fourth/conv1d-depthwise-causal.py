"""Causal depthwise conv1d and SiLU, as in front of a state-space layer."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def conv1d(batch, channels, length, taps, block_C=16, block_L=64):
    @T.prim_func
    def main(
        X: T.Tensor((batch, channels, length), "float32"),
        W: T.Tensor((channels, taps), "float32"),
        Bias: T.Tensor((channels,), "float32"),
        Y: T.Tensor((batch, channels, length), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block_L), T.ceildiv(channels, block_C), batch, threads=128) as (bl, bc, bb):
            x_shared = T.alloc_shared((block_C, block_L + taps - 1), "float32")
            w_shared = T.alloc_shared((block_C, taps), "float32")
            acc = T.alloc_fragment((block_C, block_L), "float32")
            for c, t in T.Parallel(block_C, block_L + taps - 1):
                x_shared[c, t] = T.if_then_else(
                    bl * block_L + t >= taps - 1,
                    X[bb, bc * block_C + c, bl * block_L + t - (taps - 1)],
                    0.0,
                )
            T.copy(W[bc * block_C, 0], w_shared)
            for c, t in T.Parallel(block_C, block_L):
                acc[c, t] = Bias[bc * block_C + c]
            for k in T.serial(taps):
                for c, t in T.Parallel(block_C, block_L):
                    acc[c, t] = acc[c, t] + w_shared[c, k] * x_shared[c, t + (taps - 1) - k]  # BUG
            for c, t in T.Parallel(block_C, block_L):
                Y[bb, bc * block_C + c, bl * block_L + t] = acc[c, t] / (1.0 + T.exp(-acc[c, t]))

    return main


if __name__ == "__main__":
    torch.manual_seed(13)
    batch, channels, length, taps = 2, 32, 128, 4
    x = torch.randn(batch, channels, length, device="cuda")
    w = torch.randn(channels, taps, device="cuda")
    bias = torch.randn(channels, device="cuda")
    y = conv1d(batch, channels, length, taps)(x, w, bias)
    padded = torch.nn.functional.pad(x, (taps - 1, 0))
    want = torch.nn.functional.silu(
        torch.nn.functional.conv1d(padded, w[:, None, :], bias, groups=channels)
    )
    torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-4)
    print("conv1d ok")
