import tilelang
import tilelang.language as T


@tilelang.jit
def scale():
    rows = T.dynamic("rows")

    @T.prim_func
    def run(src: T.Tensor((rows, 32), "float32"), dst: T.Tensor((rows, 32), "float32")):
        with T.Kernel(1, threads=64):
            held = T.alloc_fragment((256, 32), "float32")
            T.fill(held, 1.0)
            for r, c in T.Parallel(rows, 32):  # BUG
                held[r, c] = src[r, c] + 1.0
            T.copy(held, dst[0:256, 0:32])

    return run


scale()
