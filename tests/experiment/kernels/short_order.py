import tilelang
import tilelang.language as T


@T.prim_func
def f(A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 128), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 32), "float16")
        b = T.alloc_shared((32, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(8, order=[0, 1], stage=[0, 0]):  # BUG
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


tilelang.compile(f)
