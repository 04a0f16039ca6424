import tilelang
import tilelang.language as T


@T.macro
def accumulate(weights, inputs, sums):
    T.gemm(weights, inputs, sums)  # BUG


def project(rows=72):
    @T.prim_func
    def projection(
        W: T.Tensor((rows, 64), "float16"), V: T.Tensor((64, 64), "float16"), R: T.Tensor((rows, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            weights = T.alloc_shared((rows, 64), "float16")
            inputs = T.alloc_shared((64, 64), "float16")
            sums = T.alloc_fragment((rows, 64), "float32")
            T.copy(W, weights)
            T.copy(V, inputs)
            T.clear(sums)
            accumulate(weights, inputs, sums)
            for i, j in T.Parallel(rows, 64):
                sums[i, j] = T.max(sums[i, j], 0.0)
            T.copy(sums, R)

    return projection


tilelang.compile(project())
