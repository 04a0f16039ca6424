"""A linear layer: its bias goes through shared memory before the pipelined product and is added after it."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def linear(m, n, k, block_m=128, block_n=128, block_k=64, stages=3):
    @T.prim_func
    def main(
        X: T.Tensor((m, k), "float16"),
        W: T.Tensor((k, n), "float16"),
        Bias: T.Tensor((n,), "float16"),
        Y: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=128) as (bx, by):
            x = T.alloc_shared((block_m, block_k), "float16")
            w = T.alloc_shared((block_k, block_n), "float16")
            bias = T.alloc_shared((block_n,), "float16")
            acc = T.alloc_fragment((block_m, block_n), "float32")
            T.copy(Bias[bx * block_n], bias)
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                T.copy(X[by * block_m, ko * block_k], x)
                T.copy(W[ko * block_k, bx * block_n], w)
                T.gemm(x, w, acc)
            for i, j in T.Parallel(block_m, block_n):
                acc[i, j] = acc[i, j] + bias[j]
            T.copy(acc, Y[by * block_m, bx * block_n])

    return main


torch.manual_seed(1)
m, n, k = 256, 256, 256
x = torch.randn(m, k, device="cuda", dtype=torch.float16)
w = torch.randn(k, n, device="cuda", dtype=torch.float16)
bias = torch.randn(n, device="cuda", dtype=torch.float16)
y = linear(m, n, k)(x, w, bias)
torch.testing.assert_close(y.float(), x.float() @ w.float() + bias.float(), rtol=1e-2, atol=5e-2)
