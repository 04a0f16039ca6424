"""Decode attention for a few draft tokens at once (speculative decoding), GQA heads packed into the M tile.

The q_len newest tokens are already in the cache: token t of sequence b sits at position lens[b] - q_len + t.
"""
import math

import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def decode_attention(batch, q_len, heads, kv_heads, max_len, dim, block_R=32, block_N=32, threads=128):
    group = heads // kv_heads
    rows = q_len * group
    scale = 1.0 / math.sqrt(dim) * 1.4426950408889634
    assert rows <= block_R

    @T.prim_func
    def main(
        Q: T.Tensor((batch, q_len, heads, dim), "float16"),
        K: T.Tensor((batch, max_len, kv_heads, dim), "float16"),
        V: T.Tensor((batch, max_len, kv_heads, dim), "float16"),
        Lens: T.Tensor((batch,), "int32"),
        O: T.Tensor((batch, q_len, heads, dim), "float16"),
    ):
        with T.Kernel(kv_heads, batch, threads=threads) as (hk, b):
            Q_s = T.alloc_shared((block_R, dim), "float16")
            K_s = T.alloc_shared((block_N, dim), "float16")
            V_s = T.alloc_shared((block_N, dim), "float16")
            P_s = T.alloc_shared((block_R, block_N), "float16")
            S = T.alloc_fragment((block_R, block_N), "float32")
            acc = T.alloc_fragment((block_R, dim), "float32")
            m_old = T.alloc_fragment((block_R,), "float32")
            m_new = T.alloc_fragment((block_R,), "float32")
            l_blk = T.alloc_fragment((block_R,), "float32")
            l_run = T.alloc_fragment((block_R,), "float32")

            kv_len = Lens[b]
            for r, d in T.Parallel(block_R, dim):
                if r < rows:
                    Q_s[r, d] = Q[b, r // group, hk * group + r % group, d]
                else:
                    Q_s[r, d] = T.cast(0, "float16")
            T.clear(acc)
            T.clear(l_run)
            T.fill(m_new, -1e30)

            for n in T.serial(T.ceildiv(kv_len, block_N)):
                T.copy(K[b, n * block_N : (n + 1) * block_N, hk, :], K_s)
                T.copy(V[b, n * block_N : (n + 1) * block_N, hk, :], V_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True)
                for r, c in T.Parallel(block_R, block_N):
                    visible = n * block_N + c < kv_len and n * block_N + c <= kv_len - q_len + r
                    S[r, c] = T.if_then_else(visible, S[r, c] * scale, -1e30)
                T.copy(m_new, m_old)
                T.reduce_max(S, m_new, dim=1, clear=False)
                for r, c in T.Parallel(block_R, block_N):
                    S[r, c] = T.exp2(S[r, c] - m_new[r])
                T.reduce_sum(S, l_blk, dim=1)
                for r in T.Parallel(block_R):
                    l_run[r] = l_run[r] * T.exp2(m_old[r] - m_new[r]) + l_blk[r]
                for r, d in T.Parallel(block_R, dim):
                    acc[r, d] *= T.exp2(m_old[r] - m_new[r])
                T.copy(S, P_s)
                T.gemm(P_s, V_s, acc)

            for r, d in T.Parallel(block_R, dim):
                if r < rows:
                    O[b, r // group, hk * group + r % group, d] = acc[r, d] / l_run[r]

    return main


def reference(q, k, v, lens):
    out = torch.empty_like(q, dtype=torch.float32)
    group = q.shape[2] // k.shape[2]
    for b, n in enumerate(lens.tolist()):
        kb = k[b, :n].float().repeat_interleave(group, dim=1)
        vb = v[b, :n].float().repeat_interleave(group, dim=1)
        s = torch.einsum("thd,shd->hts", q[b].float(), kb) / math.sqrt(q.shape[-1])
        pos = torch.arange(n - q.shape[1], n, device=q.device)
        s.masked_fill_(torch.arange(n, device=q.device)[None, :] > pos[:, None], float("-inf"))
        out[b] = torch.einsum("hts,shd->thd", s.softmax(-1), vb)
    return out


def main():
    torch.manual_seed(3)
    batch, max_len, dim = 3, 128, 64
    lens = torch.tensor([41, 128, 70], dtype=torch.int32, device="cuda")
    for q_len, heads, kv_heads in [(1, 8, 2), (4, 4, 4), (4, 8, 2)]:
        q = torch.randn(batch, q_len, heads, dim, device="cuda").half()
        k = torch.randn(batch, max_len, kv_heads, dim, device="cuda").half()
        v = torch.randn(batch, max_len, kv_heads, dim, device="cuda").half()
        o = decode_attention(batch, q_len, heads, kv_heads, max_len, dim)(q, k, v, lens)
        diff = (o.float() - reference(q, k, v, lens)).abs().max().item()
        print(f"q_len={q_len} heads={heads}/{kv_heads}: max diff {diff:.3e}")
        assert diff < 1e-2, "decode attention does not match"


if __name__ == "__main__":
    main()
