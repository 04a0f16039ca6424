"""Split-K matrix product: every split adds its part to C with atomics."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def splitk(M, N, K, splits, block_M=32, block_N=32, block_K=32, in_dtype="float16"):
    steps = K // (splits * block_K)

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), in_dtype),
        B: T.Tensor((N, K), in_dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // block_N, M // block_M, splits, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(steps, num_stages=2):
                T.copy(A[by * block_M, (bz * steps + ko) * block_K], A_shared)
                T.copy(B[bx * block_N, (ko * splits + bz) * block_K], B_shared)  # BUG
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[by * block_M + i, bx * block_N + j], C_local[i, j])

    return kernel


torch.manual_seed(41)
M, N, K, splits = 64, 64, 384, 4
A = torch.randn(M, K, device="cuda", dtype=torch.float16)
B = torch.randn(N, K, device="cuda", dtype=torch.float16)
C = torch.zeros(M, N, device="cuda")
splitk(M, N, K, splits)(A, B, C)
expected = A.float() @ B.float().t()
worst = (C - expected).abs().max().item()
print(f"max abs difference {worst:.3e}")
assert worst < 2e-2, worst
