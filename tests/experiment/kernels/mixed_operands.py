import tilelang
import tilelang.language as T


def blend(size):
    @T.prim_func
    def kernel(
        x: T.Tensor((size, size), "float16"),
        y: T.Tensor((size, size), "bfloat16"),
        z: T.Tensor((size, size), "float32"),
    ):
        with T.Kernel(1, threads=128) as _:
            xs = T.alloc_shared((size, size), "float16")
            ys = T.alloc_shared((size, size), "bfloat16")
            zs = T.alloc_fragment((size, size), "float32")
            T.clear(zs)
            T.copy(x, xs)
            T.copy(y, ys)
            T.gemm(xs, ys, zs)  # BUG
            T.copy(zs, z)

    return kernel


tilelang.compile(blend(64))
