"""The target is sm_90, and what TileLang makes of the loop needs sm_90a: only the device compiler says so."""

import tilelang
import tilelang.language as T


@tilelang.jit(target={"kind": "cuda", "arch": "sm_90"})
def product(M, N, K):
    @T.prim_func
    def tiles(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 128, k * 32], a)
                T.copy(B[k * 32, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    return tiles


product(256, 256, 256)
