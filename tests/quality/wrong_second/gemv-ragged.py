"""Matrix times vector; the inner dimension is no multiple of the tile."""

import numpy as np
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def gemv(rows, cols, block_rows=32, block_cols=128):
    @T.prim_func
    def main(
        W: T.Tensor((rows, cols), "float16"),
        x: T.Tensor((cols,), "float16"),
        y: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            w_tile = T.alloc_shared((block_rows, block_cols), "float16")
            x_tile = T.alloc_shared((block_cols,), "float16")
            prod = T.alloc_fragment((block_rows, block_cols), "float32")
            acc = T.alloc_fragment((block_rows,), "float32")
            T.clear(acc)
            for ko in T.serial(cols // block_cols):  # BUG
                T.copy(W[bx * block_rows, ko * block_cols], w_tile)
                T.copy(x[ko * block_cols], x_tile)
                for i, j in T.Parallel(block_rows, block_cols):
                    prod[i, j] = T.Cast("float32", w_tile[i, j]) * T.Cast("float32", x_tile[j])
                T.reduce_sum(prod, acc, dim=1, clear=False)
            T.copy(acc, y[bx * block_rows])

    return main


if __name__ == "__main__":
    torch.manual_seed(3)
    rows, cols = 256, 440
    w = torch.randn(rows, cols, device="cuda", dtype=torch.float16)
    x = torch.randn(cols, device="cuda", dtype=torch.float16)
    y = gemv(rows, cols)(w, x)
    expected = torch.mv(w.float(), x.float())
    np.testing.assert_allclose(y.cpu().numpy(), expected.cpu().numpy(), rtol=1e-3, atol=1e-3)
    print("gemv matches")
