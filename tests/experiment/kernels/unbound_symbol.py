import tilelang
import tilelang.language as T

limit = T.dynamic("limit")


@T.prim_func
def clamp(values: T.Tensor((512,), "float32"), kept: T.Tensor((512,), "float32")):
    with T.Kernel(4, threads=128) as g:
        for e in T.Parallel(128):
            kept[g * 128 + e] = values[g * 128 + e]
        for e in T.Parallel(128):
            kept[g * 128 + e] = T.min(values[g * 128 + e], T.cast(limit, "float32"))  # BUG


tilelang.compile(clamp)
