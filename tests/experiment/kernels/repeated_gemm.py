import tilelang
import tilelang.language as T


@T.prim_func
def f(A: T.Tensor((80, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((80, 64), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((80, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((80, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        for _ in range(2):
            T.gemm(a, b, c)  # BUG
        T.copy(c, C)


tilelang.compile(f)
