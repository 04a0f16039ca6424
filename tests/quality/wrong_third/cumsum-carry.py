"""Inclusive prefix sum of every row, tile by tile with a carry."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def prefix_sum(rows, cols, block_rows=8, block_cols=64):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as b:
            tile = T.alloc_shared((block_rows, block_cols), "float32")
            carry = T.alloc_shared((block_rows,), "float32")
            T.clear(carry)
            for t in T.serial(T.ceildiv(cols, block_cols)):
                T.copy(X[b * block_rows, t * block_cols], tile)
                T.cumsum(tile, dim=1)
                for i, j in T.Parallel(block_rows, block_cols):
                    if b * block_rows + i < rows and t * block_cols + j < cols:
                        Y[b * block_rows + i, t * block_cols + j] = tile[i, j] + carry[i]
                for i in T.Parallel(block_rows):
                    carry[i] = tile[i, block_cols - 1]  # BUG

    return main


torch.manual_seed(64)
rows, cols = 40, 400
x = torch.rand(rows, cols, device="cuda")
y = prefix_sum(rows, cols)(x)
ref = torch.cumsum(x.double(), dim=1).float()
assert (y - ref).abs().max().item() < 1e-3
print("prefix sum ok")
