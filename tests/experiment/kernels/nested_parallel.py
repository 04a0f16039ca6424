import tilelang
import tilelang.language as T


@T.prim_func
def outer(xs: T.Tensor((64, 64), "float32"), ys: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        buf = T.alloc_fragment((64, 64), "float32")
        T.copy(xs, buf)
        for p in T.Parallel(64):
            buf[p, 0] = 0.0
            for q in T.Parallel(64):  # BUG
                buf[p, q] = buf[p, q] * 2.0
        T.copy(buf, ys)


tilelang.compile(outer)
