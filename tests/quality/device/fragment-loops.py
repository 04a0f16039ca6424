"""Weights for the first 100 of 256 columns, one for the others; every column is multiplied by its weight."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def weigh(rows, cols=256, head=100, threads=128):
    @T.prim_func
    def main(
        X: T.Tensor((rows, cols), "float32"), W: T.Tensor((rows, head), "float32"), Y: T.Tensor((rows, cols), "float32")
    ):
        with T.Kernel(rows, threads=threads) as r:
            weight = T.alloc_fragment((cols,), "float32")
            for j in T.Parallel(head):
                weight[j] = W[r, j]
            for j in T.Parallel(cols):
                weight[j] = T.if_then_else(j < head, weight[j], 1.0)
            for j in T.Parallel(cols):
                Y[r, j] = X[r, j] * weight[j]

    return main


torch.manual_seed(0)
x = torch.randn(64, 256, device="cuda")
w = torch.randn(64, 100, device="cuda")
y = weigh(64)(x, w)
expected = x.clone()
expected[:, :100] *= w
torch.testing.assert_close(y, expected)
