"""log-sum-exp over the last axis, any number of columns."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=-1)
def logsumexp(rows, cols, block_m, block_n):
    @T.prim_func
    def kernel(X: T.Tensor((rows, cols), "float16"), Out: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, block_m), threads=128) as b:
            tile = T.alloc_fragment((block_m, block_n), "float32")
            top = T.alloc_fragment((block_m,), "float32")
            before = T.alloc_fragment((block_m,), "float32")
            acc = T.alloc_fragment((block_m,), "float32")
            now = T.alloc_fragment((block_m,), "float32")
            T.fill(top, -T.infinity("float32"))
            T.fill(acc, 0.0)
            for k in T.serial(T.ceildiv(cols, block_n)):
                for i, j in T.Parallel(block_m, block_n):
                    tile[i, j] = T.if_then_else(
                        k * block_n + j < cols,
                        T.cast(X[b * block_m + i, k * block_n + j], "float32"),
                        0.0,  # BUG
                    )
                T.copy(top, before)
                T.reduce_max(tile, top, dim=1, clear=False)
                for i, j in T.Parallel(block_m, block_n):
                    tile[i, j] = T.exp(tile[i, j] - top[i])
                T.reduce_sum(tile, now, dim=1)
                for i in T.Parallel(block_m):
                    acc[i] = acc[i] * T.exp(before[i] - top[i]) + now[i]
            for i in T.Parallel(block_m):
                Out[b * block_m + i] = top[i] + T.log(acc[i])

    return kernel


torch.manual_seed(77)
x = torch.randn(64, 333, device="cuda").half()
out = logsumexp(64, 333, 16, 64)(x)
ref = torch.logsumexp(x.float(), dim=1)
assert torch.allclose(out, ref, rtol=1e-4, atol=1e-4), f"off by {(out - ref).abs().max().item()}"
print("ok")
