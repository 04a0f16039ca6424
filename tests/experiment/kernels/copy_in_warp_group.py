import tilelang
import tilelang.language as T


@T.prim_func
def scale(rows: T.Tensor((4, 128, 64), "float32"), scaled: T.Tensor((4, 128, 64), "float32")):
    with T.Kernel(4, threads=256) as part:
        tile = T.alloc_shared((128, 64), "float32")
        half = T.alloc_shared((64, 32), "float32")
        ready = T.alloc_barrier(arrive_count=128)
        with T.ws(0):
            T.copy(rows[part, 0, 0], tile)
            T.copy(rows[part, 0:64, 0:64], half)  # BUG
            T.barrier_arrive(ready)
        with T.ws(1):
            T.barrier_wait(ready, 0)
            for i, j in T.Parallel(128, 64):
                scaled[part, i, j] = tile[i, j] * 2.0


tilelang.compile(scale)
