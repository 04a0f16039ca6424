import tilelang
import tilelang.language as T


@T.prim_func
def f(
    A: T.Tensor((64, 64), "float16"),
    B: T.Tensor((64, 64), "float16"),
    D: T.Tensor((64, 36), "float16"),
    C: T.Tensor((64, 64), "float32"),
    E: T.Tensor((64, 36), "float32"),
):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        d = T.alloc_shared((64, 36), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        e = T.alloc_fragment((64, 36), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.copy(D, d)
        T.clear(c)
        T.clear(e)
        T.gemm(a, b, c)
        T.gemm(a, d, e)  # BUG
        T.copy(c, C)
        T.copy(e, E)


tilelang.compile(f)
