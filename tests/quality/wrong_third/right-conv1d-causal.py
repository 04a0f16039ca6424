"""Causal depthwise convolution along time with a SiLU, (batch, time, channel) layout."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[3])
def causal_conv(B, L, D, width, block_L=32, block_D=32):
    @T.prim_func
    def main(
        X: T.Tensor((B, L, D), "float16"),
        W: T.Tensor((D, width), "float16"),
        bias: T.Tensor((D,), "float16"),
        Y: T.Tensor((B, L, D), "float16"),
    ):
        with T.Kernel(T.ceildiv(D, block_D), T.ceildiv(L, block_L), B, threads=128) as (bd, bl, b):
            acc = T.alloc_fragment((block_L, block_D), "float32")
            for i, d in T.Parallel(block_L, block_D):
                acc[i, d] = bias[bd * block_D + d]
            for w in T.serial(width):
                for i, d in T.Parallel(block_L, block_D):
                    t = bl * block_L + i + w - (width - 1)
                    if t >= 0 and t < L:
                        acc[i, d] += T.cast(X[b, t, bd * block_D + d], "float32") * T.cast(W[bd * block_D + d, w], "float32")
            for i, d in T.Parallel(block_L, block_D):
                acc[i, d] = acc[i, d] / (1.0 + T.exp(-acc[i, d]))
            for i, d in T.Parallel(block_L, block_D):
                if bl * block_L + i < L:
                    Y[b, bl * block_L + i, bd * block_D + d] = acc[i, d]

    return main


if __name__ == "__main__":
    torch.manual_seed(202)
    B, L, D, width = 2, 50, 64, 4
    x = torch.randn(B, L, D, device="cuda").half()
    w = torch.randn(D, width, device="cuda").half()
    bias = torch.randn(D, device="cuda").half()
    y = causal_conv(B, L, D, width)(x, w, bias)
    ref = F.conv1d(x.float().transpose(1, 2), w.float()[:, None], bias.float(), padding=width - 1, groups=D)[..., :L]
    torch.testing.assert_close(y.float(), F.silu(ref).transpose(1, 2), rtol=5e-3, atol=5e-3)
    print("causal conv ok")
