"""Cumulative sum along long rows: scan one chunk at a time and carry the total to the next."""

import tilelang
import tilelang.language as T
import torch


def chunked_cumsum(rows, cols, chunk=64, block_rows=16):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            x = T.alloc_shared((block_rows, chunk), "float32")
            scanned = T.alloc_fragment((block_rows, chunk), "float32")
            total = T.alloc_fragment((block_rows,), "float32")
            carry = T.alloc_fragment((block_rows,), "float32")
            T.clear(carry)
            for c in T.serial(cols // chunk):
                T.copy(X[bx * block_rows, c * chunk], scanned)
                T.reduce_sum(scanned, total, dim=1)
                T.copy(scanned, x)
                T.cumsum(src=x, dim=1)
                for i, j in T.Parallel(block_rows, chunk):
                    scanned[i, j] = x[i, j] + carry[i]
                T.copy(scanned, Y[bx * block_rows, c * chunk])
                for i in T.Parallel(block_rows):
                    carry[i] = total[i]  # BUG

    return main


torch.manual_seed(0)
rows, cols = 64, 256
kernel = tilelang.compile(chunked_cumsum(rows, cols), out_idx=[1])
x = torch.randn(rows, cols, device="cuda")
torch.testing.assert_close(kernel(x), x.cumsum(dim=1), rtol=1e-3, atol=1e-3)
print("cumsum ok")
