"""Flash-decoding for GQA: KV range divided over splits, then a log-sum-exp combine."""
import math

import torch
import tilelang
import tilelang.language as T

DTYPE = "float16"
ACC = "float32"


@tilelang.jit(out_idx=[4, 5])
def decode_partial(B, Hq, Hkv, S, D, splits, block_S=32):
    group = Hq // Hkv
    rows = 16  # query heads of one KV head, padded to a gemm tile
    scale = 1.0 / math.sqrt(D)

    @T.prim_func
    def partial(
        Q: T.Tensor((B, Hq, D), DTYPE),
        K: T.Tensor((B, S, Hkv, D), DTYPE),
        V: T.Tensor((B, S, Hkv, D), DTYPE),
        Lens: T.Tensor((B,), "int32"),
        Po: T.Tensor((B, Hq, splits, D), ACC),
        Lse: T.Tensor((B, Hq, splits), ACC),
    ):
        with T.Kernel(splits, Hkv, B, threads=128) as (sp, hk, b):
            q_s = T.alloc_shared((rows, D), DTYPE)
            k_s = T.alloc_shared((block_S, D), DTYPE)
            v_s = T.alloc_shared((block_S, D), DTYPE)
            p_s = T.alloc_shared((rows, block_S), DTYPE)
            s = T.alloc_fragment((rows, block_S), ACC)
            o = T.alloc_fragment((rows, D), ACC)
            m = T.alloc_fragment((rows,), ACC)
            m_old = T.alloc_fragment((rows,), ACC)
            l = T.alloc_fragment((rows,), ACC)
            r = T.alloc_fragment((rows,), ACC)

            length = Lens[b]
            per_split = T.ceildiv(length, splits)
            begin = sp * per_split
            end = T.min(begin + per_split, length)

            for i, d in T.Parallel(rows, D):
                q_s[i, d] = T.if_then_else(i < group, Q[b, hk * group + T.min(i, group - 1), d], 0)
            T.clear(o)
            T.clear(l)
            T.fill(m, -1e30)

            for t in T.serial(T.ceildiv(end - begin, block_S)):
                base = begin + t * block_S
                for j, d in T.Parallel(block_S, D):
                    k_s[j, d] = T.if_then_else(base + j < S, K[b, T.min(base + j, S - 1), hk, d], 0)
                    v_s[j, d] = T.if_then_else(base + j < S, V[b, T.min(base + j, S - 1), hk, d], 0)
                T.clear(s)
                T.gemm(q_s, k_s, s, transpose_B=True)
                for i, j in T.Parallel(rows, block_S):
                    s[i, j] = T.if_then_else(base + j < length, s[i, j] * scale, -1e30)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(rows, block_S):
                    s[i, j] = T.exp(s[i, j] - m[i])
                T.reduce_sum(s, r, dim=1)
                for i in T.Parallel(rows):
                    l[i] = l[i] * T.exp(m_old[i] - m[i]) + r[i]
                for i, d in T.Parallel(rows, D):
                    o[i, d] *= T.exp(m_old[i] - m[i])
                T.copy(s, p_s)
                T.gemm(p_s, v_s, o)

            for i, d in T.Parallel(rows, D):
                if i < group:
                    Po[b, hk * group + i, sp, d] = T.if_then_else(l[i] > 0, o[i, d] / l[i], 0.0)
            for i in T.Parallel(rows):
                if i < group:
                    Lse[b, hk * group + i, sp] = T.if_then_else(l[i] > 0, m[i] + T.log(l[i]), -1e30)

    return partial


def combine(po, lse):
    w = torch.softmax(lse, dim=-1)
    return (po * w[..., None]).sum(dim=2)


def reference(q, k, v, lens):
    B, Hq, D = q.shape
    g = Hq // k.shape[2]
    out = torch.empty(B, Hq, D, device=q.device)
    for b in range(B):
        n = int(lens[b])
        kk = k[b, :n].float().repeat_interleave(g, dim=1)
        vv = v[b, :n].float().repeat_interleave(g, dim=1)
        p = torch.softmax(torch.einsum("hd,shd->hs", q[b].float(), kk) / math.sqrt(D), dim=-1)
        out[b] = torch.einsum("hs,shd->hd", p, vv)
    return out


def main():
    torch.manual_seed(3)
    B, Hq, Hkv, S, D = 3, 8, 2, 256, 64
    for splits in (1, 2, 4):
        q = torch.randn(B, Hq, D, device="cuda").to(getattr(torch, DTYPE))
        k = torch.randn(B, S, Hkv, D, device="cuda").to(getattr(torch, DTYPE))
        v = torch.randn(B, S, Hkv, D, device="cuda").to(getattr(torch, DTYPE))
        lens = torch.tensor([256, 171, 5], dtype=torch.int32, device="cuda")
        po, lse = decode_partial(B, Hq, Hkv, S, D, splits)(q, k, v, lens)
        torch.testing.assert_close(combine(po, lse), reference(q, k, v, lens), rtol=1e-2, atol=1e-2)
        print(f"splits={splits} ok")


if __name__ == "__main__":
    main()
