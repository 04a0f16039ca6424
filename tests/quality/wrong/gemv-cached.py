"""y = W v, the vector read tile by tile into shared memory."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def gemv(rows, cols, block_rows=32, block_cols=128):
    @T.prim_func
    def kernel(
        W: T.Tensor((rows, cols), "float16"),
        v: T.Tensor((cols,), "float16"),
        y: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            w = T.alloc_shared((block_rows, block_cols), "float16")
            x = T.alloc_shared((block_cols,), "float16")
            products = T.alloc_fragment((block_rows, block_cols), "float32")
            partial = T.alloc_fragment((block_rows,), "float32")
            total = T.alloc_fragment((block_rows,), "float32")

            T.clear(total)
            for step in T.serial(T.ceildiv(cols, block_cols)):
                T.copy(W[bx * block_rows, step * block_cols], w)
                T.copy(v[0:block_cols], x)  # BUG
                for i, j in T.Parallel(block_rows, block_cols):
                    products[i, j] = T.cast(w[i, j], "float32") * T.cast(x[j], "float32")
                T.reduce_sum(products, partial, dim=1)
                for i in T.Parallel(block_rows):
                    total[i] += partial[i]
            T.copy(total, y[bx * block_rows])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(11)
    rows, cols = 256, 512
    W = torch.randn(rows, cols, device="cuda", dtype=torch.float16)
    v = torch.randn(cols, device="cuda", dtype=torch.float16)
    y = gemv(rows, cols)(W, v)
    torch.testing.assert_close(y, W.float() @ v.float(), rtol=1e-3, atol=1e-3)
    print("gemv ok")
