"""fp16 GEMM with fp32 accumulation, the result stored as fp16."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def gemm(M, N, K, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    a = torch.randn(128, 256, device="cuda", dtype=torch.float16)
    b = torch.randn(256, 128, device="cuda", dtype=torch.float16)
    c = gemm(128, 128, 256)(a, b)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-6, atol=1e-6)  # BUG
    print("gemm ok")
