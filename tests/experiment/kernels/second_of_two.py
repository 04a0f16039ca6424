import tilelang
import tilelang.language as T


@T.prim_func
def good(a: T.Tensor((128, 64), "float16"), b: T.Tensor((128, 64), "float16")):
    with T.Kernel(1, threads=128):
        held = T.alloc_shared((128, 64), "float16")
        T.copy(a, held)
        T.copy(held, b)


@T.prim_func
def bad(a: T.Tensor((128, 64), "float16"), b: T.Tensor((64, 128), "float16"), c: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128):
        one = T.alloc_shared((128, 64), "float16")
        two = T.alloc_shared((64, 128), "float16")
        three = T.alloc_shared((128, 128), "float32")
        T.copy(a, one)
        T.copy(b, two)
        T.gemm(one, two, three)  # BUG
        T.copy(three, c)


tilelang.compile(good)
tilelang.compile(bad)
