"""L2-normalize the rows of a half matrix."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[1])
def l2_normalize(rows, cols, block_rows=4, block_cols=256):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float16"), Y: T.Tensor((rows, cols), "float16")):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as b:
            x = T.alloc_fragment((block_rows, block_cols), "float16")
            squares = T.alloc_fragment((block_rows, block_cols), "float32")
            part = T.alloc_fragment((block_rows,), "float32")
            total = T.alloc_fragment((block_rows,), "float16")  # BUG
            inverse = T.alloc_fragment((block_rows,), "float32")
            T.clear(total)
            for t in T.serial(T.ceildiv(cols, block_cols)):
                T.copy(X[b * block_rows, t * block_cols], x)
                for i, j in T.Parallel(block_rows, block_cols):
                    squares[i, j] = T.cast(x[i, j], "float32") * T.cast(x[i, j], "float32")
                T.reduce_sum(squares, part, dim=1)
                for i in T.Parallel(block_rows):
                    total[i] = total[i] + part[i]
            for i in T.Parallel(block_rows):
                inverse[i] = T.rsqrt(T.max(T.cast(total[i], "float32"), 1e-24))
            for t in T.serial(T.ceildiv(cols, block_cols)):
                T.copy(X[b * block_rows, t * block_cols], x)
                for i, j in T.Parallel(block_rows, block_cols):
                    x[i, j] = x[i, j] * inverse[i]
                T.copy(x, Y[b * block_rows, t * block_cols])

    return main


torch.manual_seed(25)
x = (12 * torch.randn(32, 1024, device="cuda")).half()
y = l2_normalize(32, 1024)(x)
assert torch.allclose(y.float(), F.normalize(x.float(), dim=1), rtol=5e-3, atol=1e-4)
print("l2 ok")
