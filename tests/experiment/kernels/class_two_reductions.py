import tilelang
import tilelang.language as T


class Normalizer:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols

    def build(self):
        rows, cols = self.rows, self.cols

        @T.prim_func
        def normalize(X: T.Tensor((rows, cols), "float16"), Y: T.Tensor((rows,), "float16")):
            with T.Kernel(1, threads=256):
                tile = T.alloc_fragment((rows, cols), "float16")
                across = T.alloc_fragment((rows,), "float16")
                down = T.alloc_fragment((cols,), "float16")
                T.copy(X, tile)
                T.reduce_max(tile, across, dim=1)
                T.reduce_max(tile, down, dim=0)
                for lane in T.Parallel(rows):
                    across[lane] = across[lane] * down[lane]  # BUG
                T.copy(across, Y)

        return normalize


tilelang.compile(Normalizer(64, 64).build())
