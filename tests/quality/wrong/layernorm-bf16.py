"""LayerNorm on bf16 activations, computed in fp32 and rounded once at the end."""

import tilelang
import tilelang.language as T
import torch


def layer_norm(rows, cols, eps, block=4):
    @T.prim_func
    def main(
        X: T.Tensor((rows, cols), "bfloat16"),
        gamma: T.Tensor((cols,), "float32"),
        beta: T.Tensor((cols,), "float32"),
        Y: T.Tensor((rows, cols), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            x = T.alloc_fragment((block, cols), "float32")
            squares = T.alloc_fragment((block, cols), "float32")
            mean = T.alloc_fragment((block,), "float32")
            var = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block):
                mean[i] = mean[i] / cols
            for i, j in T.Parallel(block, cols):
                squares[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(squares, var, dim=1)
            for i, j in T.Parallel(block, cols):
                x[i, j] = (x[i, j] - mean[i]) * T.rsqrt(var[i] / cols + eps) * gamma[j] + beta[j]
            T.copy(x, Y[bx * block, 0])

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    rows, cols, eps = 64, 256, 1e-5
    kernel = tilelang.compile(layer_norm(rows, cols, eps), out_idx=[3])
    x = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)
    gamma = torch.randn(cols, device="cuda")
    beta = torch.randn(cols, device="cuda")
    y = kernel(x, gamma, beta)
    expected = torch.nn.functional.layer_norm(x.float(), (cols,), gamma, beta, eps)
    assert torch.allclose(y.float(), expected, rtol=1e-4, atol=1e-4)  # BUG
    print("layer norm ok")
