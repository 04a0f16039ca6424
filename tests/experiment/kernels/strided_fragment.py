import tilelang
import tilelang.language as T


@T.prim_func
def shift(inp: T.Tensor((256,), "float32"), outp: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        window = T.alloc_fragment((256,), "float32")
        T.copy(inp, window)
        for k in T.Parallel(128):
            window[2 * k + 1] = window[2 * k] * 0.5  # BUG
        for k in T.Parallel(128):
            outp[k] = window[2 * k + 1]


tilelang.compile(shift)
