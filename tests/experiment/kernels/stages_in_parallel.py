import tilelang
import tilelang.language as T


@T.prim_func
def smooth(signal: T.Tensor((512, 64), "float32"), result: T.Tensor((512,), "float32")):
    with T.Kernel(4, threads=128) as b:
        acc = T.alloc_fragment((128,), "float32")
        T.clear(acc)
        for row in T.Parallel(128):
            for step in T.Pipelined(64, num_stages=3):  # BUG
                acc[row] += signal[b * 128 + row, step]
        T.copy(acc, result[b * 128])


tilelang.compile(smooth)
