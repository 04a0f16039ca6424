"""Causal attention weights of a short sequence (the block that a visualizer asks for), one head a block."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def attention_weights(heads, length, dim):
    @T.prim_func
    def main(
        q: T.Tensor((heads, length, dim), "float16"),
        k: T.Tensor((heads, length, dim), "float16"),
        p: T.Tensor((heads, length, length), "float32"),
    ):
        with T.Kernel(heads, threads=128) as h:
            q_tile = T.alloc_shared((length, dim), "float16")
            k_tile = T.alloc_shared((length, dim), "float16")
            s = T.alloc_fragment((length, length), "float32")
            peak = T.alloc_fragment((length,), "float32")
            total = T.alloc_fragment((length,), "float32")
            T.copy(q[h, 0, 0], q_tile)
            T.copy(k[h, 0, 0], k_tile)
            T.clear(s)
            T.gemm(q_tile, k_tile, s, transpose_B=True)
            for i, j in T.Parallel(length, length):
                s[i, j] = T.if_then_else(j <= i + 1, s[i, j] * dim**-0.5, -1e30)  # BUG
            T.reduce_max(s, peak, dim=1)
            for i, j in T.Parallel(length, length):
                s[i, j] = T.exp(s[i, j] - peak[i])
            T.reduce_sum(s, total, dim=1)
            for i, j in T.Parallel(length, length):
                s[i, j] = s[i, j] / total[i]
            T.copy(s, p[h, 0, 0])

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    heads, length, dim = 4, 64, 64
    q = torch.randn(heads, length, dim, device="cuda", dtype=torch.float16)
    k = torch.randn(heads, length, dim, device="cuda", dtype=torch.float16)
    p = attention_weights(heads, length, dim)(q, k)
    scores = q.float() @ k.float().transpose(1, 2) * dim**-0.5
    hidden = torch.ones(length, length, device="cuda", dtype=torch.bool).triu(1)
    expected = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    assert torch.allclose(p, expected, rtol=1e-2, atol=1e-3), "attention weights differ"
    print("weights ok")
