"""Row-wise kernels: RMSNorm, and softmax over rows that are too long for one tile."""

import tilelang
import tilelang.language as T

LOG2_E = 1.44269504


@tilelang.jit(out_idx=[2])
def rms_norm(rows, dim, block=4, eps=1e-6, dtype="float16"):
    @T.prim_func
    def kernel(
        X: T.Tensor((rows, dim), dtype),
        W: T.Tensor((dim,), dtype),
        Y: T.Tensor((rows, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            tile = T.alloc_shared((block, dim), dtype)
            x = T.alloc_fragment((block, dim), "float32")
            squares = T.alloc_fragment((block, dim), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block : (bx + 1) * block, :], tile)
            T.copy(tile, x)
            for i, j in T.Parallel(block, dim):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / dim + eps)
            for i, j in T.Parallel(block, dim):
                x[i, j] = x[i, j] * total[i] * W[j]
            T.copy(x, Y[bx * block : (bx + 1) * block, :])

    return kernel


@tilelang.jit(out_idx=[1])
def long_softmax(rows, cols, block=8, chunk=256):
    @T.prim_func
    def kernel(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(rows // block, threads=128) as bx:
            x = T.alloc_fragment((block, chunk), "float32")
            biggest = T.alloc_fragment((block,), "float32")
            previous = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((block,), "float32")
            norm = T.alloc_fragment((block,), "float32")
            T.fill(biggest, -T.infinity("float32"))
            T.clear(norm)
            for c in T.serial(cols // chunk):
                T.copy(X[bx * block, c * chunk], x)
                T.copy(biggest, previous)
                T.reduce_max(x, biggest, dim=1, clear=False)
                for i, j in T.Parallel(block, chunk):
                    x[i, j] = T.exp2((x[i, j] - biggest[i]) * LOG2_E)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block):
                    norm[i] = norm[i] * T.exp2((previous[i] - biggest[i]) * LOG2_E) + part[i]
            for c in T.serial(cols // chunk):
                T.copy(X[bx * block, c * chunk], x)
                for i, j in T.Parallel(block, chunk):
                    x[i, j] = T.exp2((x[i, j] - biggest[i]) * LOG2_E) / norm[i]
                T.copy(x, Y[bx * block, c * chunk])

    return kernel
