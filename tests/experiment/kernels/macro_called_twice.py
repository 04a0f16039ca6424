import tilelang
import tilelang.language as T


@T.macro
def mm(x, y, z):
    T.gemm(x, y, z)  # BUG


@T.prim_func
def f(A: T.Tensor((64, 20), "float16"), B: T.Tensor((20, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((64, 20), "float16")
        y = T.alloc_shared((20, 64), "float16")
        z = T.alloc_fragment((64, 64), "float32")
        T.clear(z)
        T.copy(A, x)
        T.copy(B, y)
        mm(x, y, z)
        mm(x, y, z)
        T.copy(z, C)


tilelang.compile(f)
