"""Transpose of each matrix of a batch through shared memory, with edges."""

import tilelang
import tilelang.language as T
import torch


class Transpose:
    tile = 32

    def __init__(self, batch, M, N, dtype="float16"):
        tile = self.tile

        @T.prim_func
        def kernel(A: T.Tensor((batch, M, N), dtype), B: T.Tensor((batch, N, M), dtype)):
            with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), batch, threads=128) as (bx, by, bz):
                s = T.alloc_shared((tile, tile + 2), dtype)
                for i, j in T.Parallel(tile, tile):
                    if by * tile + i < M and bx * tile + j < N:
                        s[i, j] = A[bz, by * tile + i, bx * tile + j]
                for j, i in T.Parallel(tile, tile):
                    if by * tile + i < M and bx * tile + j < N:
                        B[bz, bx * tile + j, by * tile + i] = s[i, j]

        self.kernel = tilelang.compile(kernel, out_idx=-1)

    def __call__(self, a):
        return self.kernel(a)


if __name__ == "__main__":
    torch.manual_seed(0)
    a = torch.randn(3, 50, 70, device="cuda").half()
    assert torch.equal(Transpose(3, 50, 70)(a), a.transpose(1, 2).contiguous())
    print("transpose ok")
