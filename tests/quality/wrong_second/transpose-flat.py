"""Transpose of a batch of matrices into a flat buffer."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def transpose(batch, M, N, block=32):
    @T.prim_func
    def main(X: T.Tensor((batch, M, N), "float16"), Y: T.Tensor((batch * M * N,), "float16")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), batch, threads=128) as (bx, by, bz):
            tile = T.alloc_shared((block, block), "float16")
            T.copy(X[bz, by * block, bx * block], tile)
            for j, i in T.Parallel(block, block):
                if bx * block + j < N and by * block + i < M:
                    Y[bz * M * N + (bx * block + j) * N + by * block + i] = tile[i, j]  # BUG

    return main


if __name__ == "__main__":
    torch.manual_seed(8)
    batch, M, N = 3, 144, 80
    x = torch.randn(batch, M, N, device="cuda", dtype=torch.float16)
    y = transpose(batch, M, N)(x).view(batch, N, M)
    torch.testing.assert_close(y, x.transpose(1, 2).contiguous(), rtol=0, atol=0)
    print("transpose ok")
