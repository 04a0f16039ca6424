import tilelang
import tilelang.language as T


@T.prim_func
def spread(small: T.Tensor((64, 64), "float32"), large: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        whole = T.alloc_shared((64, 64), "float32")
        part = T.alloc_shared((16, 64), "float32")
        T.copy(small, whole)
        with T.attr(0, "pragma_of_this_region", 1):
            T.copy(whole, large)
            for again in T.serial(2):
                T.copy(small[0:32, 0:64], part)  # BUG
                T.copy(part, large[again * 16, 0])


tilelang.compile(spread)
