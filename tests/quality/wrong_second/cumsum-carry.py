"""Cumulative sum along rows, a chunk at a time, with a carry per row."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def row_cumsum(rows, cols, block=32, chunk=64):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as b:
            tile = T.alloc_shared((block, chunk), "float32")
            carry = T.alloc_fragment((block,), "float32")
            T.clear(carry)
            for c in T.serial(T.ceildiv(cols, chunk)):
                T.copy(X[b * block, c * chunk], tile)
                for i in T.Parallel(block):
                    for j in T.serial(1, chunk):
                        tile[i, j] = tile[i, j] + tile[i, j - 1]
                for i in T.Parallel(block):
                    for j in T.serial(chunk):
                        Y[b * block + i, c * chunk + j] = tile[i, j] + carry[i]
                for i in T.Parallel(block):
                    carry[i] = tile[i, chunk - 1]  # BUG

    return main


if __name__ == "__main__":
    torch.manual_seed(13)
    rows, cols = 96, 512
    x = torch.randn(rows, cols, device="cuda")
    kernel = row_cumsum(rows, cols)
    profiler = kernel.get_profiler()
    profiler.assert_allclose(lambda t: torch.cumsum(t, dim=1), input_tensors=[x], rtol=1e-3, atol=1e-3)
    print("cumsum ok")
