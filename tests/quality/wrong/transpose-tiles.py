"""Out-of-place transpose through a padded tile in shared memory."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def transpose(M, N, block=32):
    @T.prim_func
    def kernel(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            tile = T.alloc_shared((block, block + 1), "float32")
            for i, j in T.Parallel(block, block):
                tile[i, j] = A[by * block + i, bx * block + j]
            for i, j in T.Parallel(block, block):
                B[bx * block + i, by * block + j] = tile[i, j]  # BUG

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    a = torch.randn(128, 256, device="cuda")
    b = transpose(128, 256)(a)
    assert torch.equal(b, a.t().contiguous())
    print("transpose ok")
