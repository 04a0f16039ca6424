"""LayerNorm over a narrow last axis, a whole row in one tile."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[3])
def layer_norm(tokens, dim, eps, block=64):
    @T.prim_func
    def main(
        X: T.Tensor((tokens, dim), "float16"),
        gamma: T.Tensor((dim,), "float16"),
        beta: T.Tensor((dim,), "float16"),
        Y: T.Tensor((tokens, dim), "float16"),
    ):
        with T.Kernel(tokens // block, threads=128) as b:
            x = T.alloc_fragment((block, dim), "float32")
            squares = T.alloc_fragment((block, dim), "float32")
            mean = T.alloc_fragment((block,), "float32")
            var = T.alloc_fragment((block,), "float32")
            T.copy(X[b * block, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block):
                mean[i] = mean[i] / dim
            for i, j in T.Parallel(block, dim):
                squares[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(squares, var, dim=0)  # BUG
            for i in T.Parallel(block):
                var[i] = T.rsqrt(var[i] / dim + eps)
            for i, j in T.Parallel(block, dim):
                Y[b * block + i, j] = (x[i, j] - mean[i]) * var[i] * gamma[j] + beta[j]

    return main


if __name__ == "__main__":
    torch.manual_seed(20)
    tokens, dim = 256, 64
    x = torch.randn(tokens, dim, device="cuda").half()
    gamma = (1 + 0.1 * torch.randn(dim, device="cuda")).half()
    beta = (0.1 * torch.randn(dim, device="cuda")).half()
    y = layer_norm(tokens, dim, 1e-5)(x, gamma, beta)
    ref = F.layer_norm(x.float(), (dim,), gamma.float(), beta.float(), eps=1e-5)
    torch.testing.assert_close(y.float(), ref, rtol=1e-2, atol=1e-2)
    print("layer norm ok")
