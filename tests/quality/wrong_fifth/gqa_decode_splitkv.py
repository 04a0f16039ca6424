import math

import torch
import tilelang
import tilelang.language as T

LOG2E = 1.4426950408889634


@tilelang.jit(out_idx=[4, 5])
def decode_split(batch, heads, kv_heads, max_len, dim, num_split, block_N=64):
    group = heads // kv_heads
    per_split = max_len // num_split
    scale = LOG2E / math.sqrt(dim)

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, heads, dim), "float16"),
        K: T.Tensor((batch, max_len, kv_heads, dim), "float16"),
        V: T.Tensor((batch, max_len, kv_heads, dim), "float16"),
        cache_len: T.Tensor((batch,), "int32"),
        O_part: T.Tensor((batch, num_split, heads, dim), "float32"),
        LSE: T.Tensor((batch, num_split, heads), "float32"),
    ):
        with T.Kernel(num_split, kv_heads, batch, threads=128) as (bs, bh, bb):
            Q_s = T.alloc_shared((group, dim), "float16")
            K_s = T.alloc_shared((block_N, dim), "float16")
            V_s = T.alloc_shared((block_N, dim), "float16")
            P_s = T.alloc_shared((group, block_N), "float16")
            S = T.alloc_fragment((group, block_N), "float32")
            O = T.alloc_fragment((group, dim), "float32")
            m_prev = T.alloc_fragment((group,), "float32")
            m_i = T.alloc_fragment((group,), "float32")
            l_i = T.alloc_fragment((group,), "float32")
            row = T.alloc_fragment((group,), "float32")

            start = bs * per_split
            length = T.max(T.min(cache_len[bb] - start, per_split), 0)
            T.copy(Q[bb, bh * group : (bh + 1) * group, :], Q_s)
            T.clear(O)
            T.clear(l_i)
            T.fill(m_i, -1e30)
            for n in T.serial(T.ceildiv(length, block_N)):
                T.copy(K[bb, start + n * block_N : start + (n + 1) * block_N, bh, :], K_s)
                T.copy(V[bb, start + n * block_N : start + (n + 1) * block_N, bh, :], V_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(group, block_N):
                    S[i, j] = T.if_then_else(n * block_N + j < length, S[i, j] * scale, -1e30)
                T.copy(m_i, m_prev)
                T.reduce_max(S, m_i, dim=1, clear=False)
                for i, j in T.Parallel(group, block_N):
                    S[i, j] = T.exp2(S[i, j] - m_i[i])
                T.reduce_sum(S, row, dim=1)
                for i in T.Parallel(group):
                    l_i[i] = l_i[i] * T.exp2(m_prev[i] - m_i[i]) + row[i]
                for i, j in T.Parallel(group, dim):
                    O[i, j] = O[i, j] * T.exp2(m_prev[i] - m_i[i])
                T.copy(S, P_s)
                T.gemm(P_s, V_s, O, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(group, dim):
                O_part[bb, bs, bh * group + i, j] = T.if_then_else(length > 0, O[i, j] / l_i[i], 0.0)
            for i in T.Parallel(group):
                LSE[bb, bs, bh * group + i] = T.if_then_else(length > 0, m_i[i] + T.log(l_i[i]), -1e30)  # BUG

    return kernel


@tilelang.jit
def decode_combine(O_part, LSE):
    batch, num_split, heads, dim = T.const("batch num_split heads dim")
    O_part: T.Tensor[[batch, num_split, heads, dim], T.float32]
    LSE: T.Tensor[[batch, num_split, heads], T.float32]
    Out = T.empty((batch, heads, dim), T.float32)
    with T.Kernel(heads, batch, threads=64) as (bh, bb):
        o = T.alloc_fragment((dim,), T.float32)
        top = T.alloc_var(T.float32, init=-1e30)
        den = T.alloc_var(T.float32, init=0.0)
        T.clear(o)
        for s in T.serial(num_split):
            top = T.max(top, LSE[bb, s, bh])
        for s in T.serial(num_split):
            den += T.exp2(LSE[bb, s, bh] - top)
            for d in T.Parallel(dim):
                o[d] += O_part[bb, s, bh, d] * T.exp2(LSE[bb, s, bh] - top)
        for d in T.Parallel(dim):
            Out[bb, bh, d] = o[d] / den
    return Out


def ref_decode(q, k, v, lens):
    g = q.shape[1] // k.shape[2]
    out = torch.empty_like(q, dtype=torch.float32)
    for b, n in enumerate(lens.tolist()):
        kk = k[b, :n].float().repeat_interleave(g, dim=1)
        vv = v[b, :n].float().repeat_interleave(g, dim=1)
        s = torch.einsum("hd,nhd->hn", q[b].float(), kk) / math.sqrt(q.shape[-1])
        out[b] = torch.einsum("hn,nhd->hd", s.softmax(-1), vv)
    return out


if __name__ == "__main__":
    torch.manual_seed(1)
    B, H, HKV, S, D, NS = 2, 32, 2, 256, 64, 2
    q = torch.randn(B, H, D, device="cuda", dtype=torch.float16)
    k = torch.randn(B, S, HKV, D, device="cuda", dtype=torch.float16)
    v = torch.randn(B, S, HKV, D, device="cuda", dtype=torch.float16)
    lens = torch.tensor([147, 230], device="cuda", dtype=torch.int32)
    part, lse = decode_split(B, H, HKV, S, D, NS)(q, k, v, lens)
    out = decode_combine(part, lse)
    torch.testing.assert_close(out, ref_decode(q, k, v, lens), rtol=1e-2, atol=1e-2)
    print("decode matches")
