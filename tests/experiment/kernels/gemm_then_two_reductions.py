import tilelang
import tilelang.language as T


@tilelang.jit
def statistics(M=128, N=128):
    @T.prim_func
    def stats(A: T.Tensor((M, 64), "float16"), B: T.Tensor((64, N), "float16"), out: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=128):
            a_tile = T.alloc_shared((M, 64), "float16")
            b_tile = T.alloc_shared((64, N), "float16")
            product = T.alloc_fragment((M, N), "float32")
            row_peak = T.alloc_fragment((M,), "float32")
            col_peak = T.alloc_fragment((N,), "float32")
            T.copy(A, a_tile)
            T.copy(B, b_tile)
            T.clear(product)
            T.gemm(a_tile, b_tile, product)
            T.reduce_max(product, row_peak, dim=1)
            T.reduce_max(product, col_peak, dim=0)
            for x in T.Parallel(M):
                row_peak[x] = row_peak[x] - col_peak[x]  # BUG
            T.copy(row_peak, out)

    return stats


statistics()
