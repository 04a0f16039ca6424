"""LayerNorm over rows of any length: a row is loaded into a tile of the next multiple of 128, the rest zero."""

import tilelang
import tilelang.language as T
import torch


def layer_norm(rows, cols, eps=1e-5, block_rows=4):
    padded = (cols + 127) // 128 * 128

    @T.prim_func
    def main(
        X: T.Tensor((rows, cols), "float32"),
        gamma: T.Tensor((cols,), "float32"),
        beta: T.Tensor((cols,), "float32"),
        Y: T.Tensor((rows, cols), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            x = T.alloc_fragment((block_rows, padded), "float32")
            squares = T.alloc_fragment((block_rows, padded), "float32")
            mean = T.alloc_fragment((block_rows,), "float32")
            var = T.alloc_fragment((block_rows,), "float32")

            for i, j in T.Parallel(block_rows, padded):
                x[i, j] = T.if_then_else(j < cols, X[bx * block_rows + i, j], 0.0)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block_rows):
                mean[i] = mean[i] / padded  # BUG
            for i, j in T.Parallel(block_rows, padded):
                squares[i, j] = T.if_then_else(j < cols, (x[i, j] - mean[i]) * (x[i, j] - mean[i]), 0.0)
            T.reduce_sum(squares, var, dim=1)
            for i, j in T.Parallel(block_rows, padded):
                if j < cols:
                    Y[bx * block_rows + i, j] = (x[i, j] - mean[i]) * T.rsqrt(var[i] / cols + eps) * gamma[j] + beta[j]

    return main


torch.manual_seed(0)
rows, cols = 64, 200
kernel = tilelang.compile(layer_norm(rows, cols), out_idx=[3])
x = torch.randn(rows, cols, device="cuda") + 0.5
gamma = torch.randn(cols, device="cuda")
beta = torch.randn(cols, device="cuda")
y = kernel(x, gamma, beta)
expected = torch.nn.functional.layer_norm(x, (cols,), gamma, beta, eps=1e-5)
assert (y - expected).abs().max() < 1e-4
print("layer_norm ok")
