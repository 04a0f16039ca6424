"""D[b] = alpha * A[b]^T @ B[b] + beta * C[b], with A stored as (batch, K, M)."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def bgemm_tn(batch, M, N, K, alpha, beta, block=32, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(
        A: T.Tensor((batch, K, M), dtype),
        B: T.Tensor((batch, K, N), dtype),
        C: T.Tensor((batch, M, N), dtype),
        D: T.Tensor((batch, M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), batch, threads=128) as (bx, by, bz):
            A_s = T.alloc_shared((block, block), dtype)
            B_s = T.alloc_shared((block, block), dtype)
            C_s = T.alloc_shared((block, block), dtype)
            acc = T.alloc_fragment((block, block), accum_dtype)
            out = T.alloc_fragment((block, block), accum_dtype)

            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(B[bz, ko * block, bx * block], B_s)
                # A comes in K-major, the tile is kept M x K
                for i, kk in T.Parallel(block, block):
                    A_s[i, kk] = A[bz, ko * block + kk, by * block + i]  # BUG
                T.gemm(A_s, B_s, acc, transpose_A=True)  # BUG

            T.copy(C[bz, by * block, bx * block], C_s)
            for i, j in T.Parallel(block, block):
                out[i, j] = alpha * acc[i, j] + beta * C_s[i, j]
            T.copy(out, D[bz, by * block, bx * block])

    return main


def reference(A, B, C, alpha, beta):
    prod = torch.bmm(A.float().transpose(1, 2), B.float())
    return alpha * prod + beta * C.float()


if __name__ == "__main__":
    torch.manual_seed(0)
    batch, M, N, K = 3, 96, 64, 64
    alpha, beta = 0.5, 1.5
    A = torch.randn(batch, K, M, device="cuda", dtype=torch.float16)
    B = torch.randn(batch, K, N, device="cuda", dtype=torch.float16)
    C = torch.randn(batch, M, N, device="cuda", dtype=torch.float16)

    kernel = bgemm_tn(batch, M, N, K, alpha, beta)
    D = kernel(A, B, C)
    torch.testing.assert_close(D.float(), reference(A, B, C, alpha, beta), rtol=1e-2, atol=2e-2)
    print("bgemm_tn: all good")
