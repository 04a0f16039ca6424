"""Chunked prefill attention with a sliding window: the queries are the last Lq of Lk positions."""
import math

import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3])
def window_attn(H, Lq, Lk, D, window, BM=32, BN=16, dtype="float16"):
    scale = 1.0 / math.sqrt(D)
    past = Lk - Lq

    @T.prim_func
    def main(
        Q: T.Tensor((H, Lq, D), dtype),
        K: T.Tensor((H, Lk, D), dtype),
        V: T.Tensor((H, Lk, D), dtype),
        O: T.Tensor((H, Lq, D), dtype),
    ):
        with T.Kernel(T.ceildiv(Lq, BM), H, threads=64) as (bx, h):
            q = T.alloc_shared((BM, D), dtype)
            k = T.alloc_shared((BN, D), dtype)
            v = T.alloc_shared((BN, D), dtype)
            s = T.alloc_fragment((BM, BN), "float32")
            p = T.alloc_shared((BM, BN), dtype)
            o = T.alloc_fragment((BM, D), "float32")
            m = T.alloc_fragment((BM,), "float32")
            m_new = T.alloc_fragment((BM,), "float32")
            l = T.alloc_fragment((BM,), "float32")
            l_tile = T.alloc_fragment((BM,), "float32")

            T.copy(Q[h, bx * BM, 0], q)
            T.clear(o)
            T.clear(l)
            T.fill(m, -1e20)

            # key tiles which this query tile can see
            first = T.max(past + (bx + 1) * BM - window, 0) // BN
            last = T.ceildiv(T.min(past + (bx + 1) * BM, Lk), BN)
            for t in T.serial(last - first):
                k0 = (first + t) * BN
                T.copy(K[h, k0, 0], k)
                T.copy(V[h, k0, 0], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                for i, j in T.Parallel(BM, BN):
                    dist = past + bx * BM + i - (k0 + j)
                    s[i, j] = T.if_then_else(dist >= 0 and dist < window, s[i, j] * scale, -1e30)
                T.reduce_max(s, m_new, dim=1)
                for i in T.Parallel(BM):
                    m_new[i] = T.max(m_new[i], m[i])
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.exp(s[i, j] - m_new[i])
                T.reduce_sum(s, l_tile, dim=1)
                for i in T.Parallel(BM):
                    l[i] = l[i] * T.exp(m[i] - m_new[i]) + l_tile[i]
                for i, j in T.Parallel(BM, D):
                    o[i, j] = o[i, j] * T.exp(m[i] - m_new[i])
                T.copy(m_new, m)
                T.copy(s, p)
                T.gemm(p, v, o)
            for i, j in T.Parallel(BM, D):
                o[i, j] = o[i, j] / l[i]
            T.copy(o, O[h, bx * BM, 0])

    return main


def reference(q, k, v, window):
    Lq, Lk = q.shape[1], k.shape[1]
    pos = torch.arange(Lk - Lq, Lk, device=q.device)[:, None] - torch.arange(Lk, device=q.device)
    s = q.float() @ k.float().transpose(1, 2) / math.sqrt(q.shape[-1])
    s = s.masked_fill((pos < 0) | (pos >= window), float("-inf"))
    return s.softmax(-1) @ v.float()


for Lq, Lk, window in [(32, 32, 64), (64, 128, 160), (64, 128, 48), (32, 96, 40)]:
    torch.manual_seed(Lk + window)
    q = torch.randn(2, Lq, 32, device="cuda").half()
    k, v = torch.randn(2, 2, Lk, 32, device="cuda").half().unbind(0)
    out = window_attn(2, Lq, Lk, 32, window)(q, k, v)
    err = (out.float() - reference(q, k, v, window)).abs().max().item()
    print(f"Lq={Lq} Lk={Lk} window={window}: max error {err:.4f}")
    assert err < 1e-2, "attention output is off"
