"""Sum of every row in fp32, piece by piece."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def row_sum(rows, cols, block_rows=16, block_cols=64):
    @T.prim_func
    def kernel(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            x = T.alloc_fragment((block_rows, block_cols), "float32")
            total = T.alloc_fragment((block_rows,), "float32")
            T.clear(total)
            for c in T.serial(T.ceildiv(cols, block_cols)):
                T.copy(X[bx * block_rows, c * block_cols], x)
                T.reduce_sum(x, total, dim=1, clear=False)
            T.copy(total, Y[bx * block_rows])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(512, 512, device="cuda")
    # every row is centred: what remains of its sum is small
    x = x - x.mean(dim=1, keepdim=True)
    torch.testing.assert_close(row_sum(512, 512)(x), x.sum(dim=1), rtol=1e-3, atol=0)  # BUG
    print("row sum ok")
