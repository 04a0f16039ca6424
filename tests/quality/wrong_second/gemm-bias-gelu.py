"""Linear layer with bias and GELU, one tile of the output per block."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def linear_gelu(M, N, K, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = C_local[i, j] + bias[by * block_N + j]  # BUG
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = 0.5 * C_local[i, j] * (1.0 + T.erf(C_local[i, j] * 0.7071067811865476))
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def reference(a, b, bias):
    return torch.nn.functional.gelu(a.float() @ b.float() + bias)


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N, K = 256, 320, 128
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    b = torch.randn(K, N, device="cuda", dtype=torch.float16) * K**-0.5
    bias = torch.randn(N, device="cuda")
    c = linear_gelu(M, N, K)(a, b, bias)
    torch.testing.assert_close(c.float(), reference(a, b, bias), rtol=1e-2, atol=1e-2)
    print("linear + gelu: pass")
