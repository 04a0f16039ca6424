"""Sum of every column, blocks of rows added with atomics."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def column_sum(rows, cols, block_rows=64, block_cols=64):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float32"), Out: T.Tensor((cols,), "float32")):
        with T.Kernel(T.ceildiv(cols, block_cols), T.ceildiv(rows, block_rows), threads=128) as (bx, by):
            x = T.alloc_fragment((block_rows, block_cols), "float32")
            part = T.alloc_fragment((block_cols,), "float32")
            T.copy(X[by * block_rows, bx * block_cols], x)
            T.reduce_sum(x, part, dim=0)
            for j in T.Parallel(block_cols):
                T.atomic_add(Out[bx * block_cols + j], part[j])

    return main


if __name__ == "__main__":
    torch.manual_seed(102)
    rows, cols = 1024, 128
    x = 100 + 10 * torch.randn(rows, cols, device="cuda")
    out = torch.zeros(cols, device="cuda")
    column_sum(rows, cols)(x, out)
    torch.testing.assert_close(out.double(), x.double().sum(0), rtol=1e-9, atol=1e-6)
    print("column sum ok")
