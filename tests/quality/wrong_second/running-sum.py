"""Prefix sums of float32 rows, one thread to a row, checked against torch in double precision."""

import numpy as np
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def prefix_sum(rows, cols, block=64):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(T.ceildiv(rows, block), threads=block) as b:
            total = T.alloc_fragment((block,), "float32")
            T.clear(total)
            for j in T.serial(cols):
                for i in T.Parallel(block):
                    total[i] = total[i] + X[b * block + i, j]
                    Y[b * block + i, j] = total[i]

    return main


if __name__ == "__main__":
    torch.manual_seed(23)
    rows, cols = 192, 500
    x = torch.randn(rows, cols, device="cuda")
    y = torch.empty_like(x)
    prefix_sum(rows, cols)(x, y)
    expected = torch.cumsum(x.double(), dim=1)
    np.testing.assert_allclose(y.cpu().numpy(), expected.cpu().numpy(), rtol=1e-7)  # BUG
    print("prefix sum ok")
