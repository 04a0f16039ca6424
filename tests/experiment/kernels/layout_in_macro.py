import tilelang
import tilelang.language as T


@T.macro
def setup(acc, n):
    T.annotate_layout({acc: T.Fragment((n, n), forward_fn=lambda i, j: (i, j))})  # BUG


@T.prim_func
def f(A: T.Tensor((128, 128), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 128), "float16")
        b = T.alloc_shared((128, 128), "float16")
        acc = T.alloc_fragment((128, 128), "float32")
        setup(acc, 128)
        T.copy(A, a)
        T.copy(A, b)
        T.clear(acc)
        T.gemm(a, b, acc)
        T.copy(acc, C)


tilelang.compile(f)
