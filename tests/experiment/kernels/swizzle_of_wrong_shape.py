import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout


def transpose(n):
    @T.prim_func
    def kernel(a: T.Tensor((n, n), "float16"), b: T.Tensor((n, n), "float16")):
        with T.Kernel(1, threads=128):
            small = T.alloc_shared((n, n // 2), "float16")
            large = T.alloc_shared((n, n), "float16")
            T.annotate_layout({large: make_swizzled_layout(small)})  # BUG
            T.copy(a, large)
            T.copy(large, b)

    return kernel


tilelang.compile(transpose(128))
