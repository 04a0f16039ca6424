import tilelang
import tilelang.language as T


def tile(m, n, k):
    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((m, k), "float16")
            B_s = T.alloc_shared((k, n), "float16")
            acc = T.alloc_fragment((m, n), "float32")
            T.gemm(A_s, B_s, acc)

    return main


tilelang.compile(tile(72, 32, 16), target={"kind": "cuda", "arch": "sm_80"})
