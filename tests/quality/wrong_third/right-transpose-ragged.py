"""Transpose of a stack of matrices through shared memory, sizes that are no multiples of the tile."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def transpose(batch, rows, cols, dtype, tile=32):
    @T.prim_func
    def main(X: T.Tensor((batch, rows, cols), dtype), Y: T.Tensor((batch, cols, rows), dtype)):
        with T.Kernel(T.ceildiv(cols, tile), T.ceildiv(rows, tile), batch, threads=128) as (bx, by, b):
            inp = T.alloc_shared((tile, tile), dtype)
            out = T.alloc_shared((tile, tile), dtype)
            T.copy(X[b, by * tile, bx * tile], inp)
            for i, j in T.Parallel(tile, tile):
                out[i, j] = inp[j, i]
            T.copy(out, Y[b, bx * tile, by * tile])

    return main


if __name__ == "__main__":
    torch.manual_seed(206)
    for dtype, rows, cols in (("float32", 50, 70), ("float16", 96, 40)):
        x = torch.randn(3, rows, cols, device="cuda").to(getattr(torch, dtype))
        y = transpose(3, rows, cols, dtype)(x)
        assert torch.equal(y, x.transpose(1, 2).contiguous()), f"{dtype} {rows}x{cols}"
    print("transpose ok")
