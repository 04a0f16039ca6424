import tilelang
import tilelang.language as T


@T.prim_func
def gather(table: T.Tensor((4, 256, 64), "float32"), picked: T.Tensor((256, 64), "float32")):
    with T.Kernel(4, threads=128) as part:
        rows = T.alloc_shared((64, 16), "float32")
        for again in T.serial(2):
            T.copy(table[part, 0:64, 0:64], rows)  # BUG
            T.copy(rows, picked[part * 64 + again, 0])


tilelang.compile(gather)
