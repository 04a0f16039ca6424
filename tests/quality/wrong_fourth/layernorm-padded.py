"""Layer norm over a width that is no power of two; the row tile is padded with zeros."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def layernorm(rows, width, padded, eps, block=16):
    @T.prim_func
    def main(
        X: T.Tensor((rows, width), "float32"),
        Gamma: T.Tensor((width,), "float32"),
        Beta: T.Tensor((width,), "float32"),
        Y: T.Tensor((rows, width), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as b:
            x = T.alloc_fragment((block, padded), "float32")
            sq = T.alloc_fragment((block, padded), "float32")
            mean = T.alloc_fragment((block,), "float32")
            var = T.alloc_fragment((block,), "float32")
            for i, j in T.Parallel(block, padded):
                x[i, j] = T.if_then_else(j < width, X[b * block + i, j], 0.0)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block):
                mean[i] = mean[i] / width
            for i, j in T.Parallel(block, padded):
                sq[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])  # BUG
            T.reduce_sum(sq, var, dim=1)
            for i in T.Parallel(block):
                var[i] = T.rsqrt(var[i] / width + eps)
            for i, j in T.Parallel(block, padded):
                if j < width:
                    Y[b * block + i, j] = (x[i, j] - mean[i]) * var[i] * Gamma[j] + Beta[j]

    return main


if __name__ == "__main__":
    torch.manual_seed(21)
    rows, width = 64, 200
    x = torch.randn(rows, width, device="cuda") + 0.7
    gamma = 1.0 + 0.1 * torch.randn(width, device="cuda")
    beta = 0.1 * torch.randn(width, device="cuda")
    y = layernorm(rows, width, 256, 1e-5)(x, gamma, beta)
    want = torch.nn.functional.layer_norm(x, (width,), gamma, beta, 1e-5)
    assert torch.allclose(y, want, rtol=1e-4, atol=1e-4), (y - want).abs().max().item()
    print("layernorm ok")
