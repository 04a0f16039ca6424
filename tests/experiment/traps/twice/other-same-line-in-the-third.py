import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def mix(M, N, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 32), "float16")
            w = T.alloc_shared((64, 64), "float16")
            y = T.alloc_fragment((64, 64), "float32")
            T.clear(y)
            T.gemm(x, w, y)

    return main


mix(64, 64, 64)
