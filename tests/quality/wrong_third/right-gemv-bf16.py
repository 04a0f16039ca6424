"""Matrix times vector in bfloat16, ragged columns, float accumulator."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def gemv(N, K, block_N=16, block_K=128):
    @T.prim_func
    def main(
        W: T.Tensor((N, K), "bfloat16"),
        x: T.Tensor((K,), "bfloat16"),
        y: T.Tensor((N,), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as b:
            w_s = T.alloc_shared((block_N, block_K), "bfloat16")
            x_s = T.alloc_shared((block_K,), "bfloat16")
            prod = T.alloc_fragment((block_N, block_K), "float32")
            acc = T.alloc_fragment((block_N,), "float32")
            T.clear(acc)
            for ko in T.serial(T.ceildiv(K, block_K)):
                T.copy(W[b * block_N, ko * block_K], w_s)
                T.copy(x[ko * block_K], x_s)
                for i, k in T.Parallel(block_N, block_K):
                    prod[i, k] = T.cast(w_s[i, k], "float32") * T.cast(x_s[k], "float32")
                T.reduce_sum(prod, acc, dim=1, clear=False)
            T.copy(acc, y[b * block_N])

    return main


torch.manual_seed(201)
N, K = 72, 600
w = torch.randn(N, K, device="cuda").bfloat16()
x = torch.randn(K, device="cuda").bfloat16()
y = gemv(N, K)(w, x)
ref = w.float() @ x.float()
assert torch.allclose(y.float(), ref, rtol=2e-2, atol=5e-2), (y.float() - ref).abs().max()
print("gemv ok")
