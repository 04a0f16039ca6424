"""Batched complex GEMM, C[b] = A[b] @ B[b]^T (no conjugation), real and imaginary parts in separate planes."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4, 5])
def complex_bmm(Bt, M, N, K, block_M=32, block_N=32, block_K=32, dtype="float16"):
    @T.prim_func
    def main(
        Ar: T.Tensor((Bt, M, K), dtype),
        Ai: T.Tensor((Bt, M, K), dtype),
        Br: T.Tensor((Bt, N, K), dtype),
        Bi: T.Tensor((Bt, N, K), dtype),
        Cr: T.Tensor((Bt, M, N), "float32"),
        Ci: T.Tensor((Bt, M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), Bt, threads=128) as (bx, by, bz):
            ar = T.alloc_shared((block_M, block_K), dtype)
            ai = T.alloc_shared((block_M, block_K), dtype)
            br = T.alloc_shared((block_N, block_K), dtype)
            bi = T.alloc_shared((block_N, block_K), dtype)
            re = T.alloc_fragment((block_M, block_N), "float32")
            im = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(re)
            T.clear(im)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(Ar[bz, by * block_M, k * block_K], ar)
                T.copy(Ai[bz, by * block_M, k * block_K], ai)
                T.copy(Br[bz, bx * block_N, k * block_K], br)
                T.copy(Bi[bz, bx * block_N, k * block_K], bi)

                T.gemm(ar, br, re, transpose_B=True)
                T.gemm(ai, br, im, transpose_B=True)
                # the tensor core only adds, so the i*i term needs a negated operand
                for i, j in T.Parallel(block_N, block_K):
                    bi[i, j] = -bi[i, j]
                T.gemm(ar, bi, im, transpose_B=True)
                T.gemm(ai, bi, re, transpose_B=True)

            T.copy(re, Cr[bz, by * block_M, bx * block_N])
            T.copy(im, Ci[bz, by * block_M, bx * block_N])

    return main


def run_case(Bt, M, N, K):
    g = torch.Generator().manual_seed(Bt * 1000 + K)
    planes = [(torch.randn(Bt, n, K, generator=g) / K**0.25).to("cuda").half() for n in (M, M, N, N)]
    cr, ci = complex_bmm(Bt, M, N, K)(*planes)
    ar, ai, br, bi = (p.float() for p in planes)
    ref = torch.complex(ar, ai) @ torch.complex(br, bi).transpose(-1, -2)
    torch.testing.assert_close(torch.complex(cr, ci), ref, rtol=2e-2, atol=2e-2)


if __name__ == "__main__":
    run_case(1, 32, 32, 64)
    run_case(3, 64, 96, 80)
    print("complex bmm ok")
