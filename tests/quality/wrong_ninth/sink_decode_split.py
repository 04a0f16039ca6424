"""Decode attention with per-head sinks: KV split over blocks, partial (m, l, o) merged by a second kernel."""
import torch
import tilelang
import tilelang.language as T


def split_kernel(B, H, HKV, S, D, splits, BN=16):
    rep = H // HKV
    per = (S + splits - 1) // splits
    scale = D**-0.5

    @T.prim_func
    def split(
        Q: T.Tensor((B, H, D), "float32"),
        K: T.Tensor((B, S, HKV, D), "float32"),
        V: T.Tensor((B, S, HKV, D), "float32"),
        Len: T.Tensor((B,), "int32"),
        M: T.Tensor((B, H, splits), "float32"),
        L: T.Tensor((B, H, splits), "float32"),
        P: T.Tensor((B, H, splits, D), "float32"),
    ):
        with T.Kernel(splits, H, B, threads=64) as (sp, h, b):
            qk = T.alloc_fragment((BN, D), "float32")
            s = T.alloc_fragment((BN,), "float32")
            pv = T.alloc_fragment((BN, D), "float32")
            m = T.alloc_fragment((1,), "float32")
            m_old = T.alloc_fragment((1,), "float32")
            l = T.alloc_fragment((1,), "float32")
            o = T.alloc_fragment((D,), "float32")
            T.fill(m, -1e30)
            T.fill(l, 0.0)
            T.fill(o, 0.0)
            for t in T.serial(T.ceildiv(per, BN)):
                for i, d in T.Parallel(BN, D):
                    n = sp * per + t * BN + i
                    ok = t * BN + i < per and n < S
                    qk[i, d] = T.if_then_else(ok, Q[b, h, d] * K[b, n, h // rep, d], 0.0)
                T.reduce_sum(qk, s, dim=1)
                for i in T.Parallel(BN):
                    ok = t * BN + i < per and sp * per + t * BN + i < Len[b]
                    s[i] = T.if_then_else(ok, s[i] * scale, -1e30)
                m_old[0] = m[0]
                T.reduce_max(s, m, dim=0, clear=False)
                for i in T.Parallel(BN):
                    s[i] = T.if_then_else(s[i] > -1e29, T.exp(s[i] - m[0]), 0.0)
                l[0] = l[0] * T.exp(m_old[0] - m[0])
                T.reduce_sum(s, l, dim=0, clear=False)
                for d in T.Parallel(D):
                    o[d] = o[d] * T.exp(m_old[0] - m[0])
                for i, d in T.Parallel(BN, D):
                    n = sp * per + t * BN + i
                    pv[i, d] = T.if_then_else(n < S, s[i] * V[b, n, h // rep, d], 0.0)
                T.reduce_sum(pv, o, dim=0, clear=False)
            M[b, h, sp] = m[0]
            L[b, h, sp] = l[0]
            T.copy(o, P[b, h, sp, :])

    return split


def merge_kernel(B, H, D, splits):
    @T.prim_func
    def merge(
        M: T.Tensor((B, H, splits), "float32"),
        L: T.Tensor((B, H, splits), "float32"),
        P: T.Tensor((B, H, splits, D), "float32"),
        Sink: T.Tensor((H,), "float32"),
        O: T.Tensor((B, H, D), "float32"),
    ):
        with T.Kernel(H, B, threads=64) as (h, b):
            top = T.alloc_var("float32")
            den = T.alloc_var("float32")
            o = T.alloc_fragment((D,), "float32")
            top = Sink[h]
            for s in T.serial(splits):
                top = T.max(top, M[b, h, s])
            den = T.exp(Sink[h] - top)
            T.clear(o)
            for s in T.serial(splits):
                den = den + L[b, h, s] * T.exp(M[b, h, s] - top)
                for d in T.Parallel(D):
                    o[d] += P[b, h, s, d] * T.exp(M[b, h, s] - top)
            for d in T.Parallel(D):
                O[b, h, d] = o[d] / den

    return merge


def reference(q, k, v, lens, sink):
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[2], 2) for t in (k, v))
    s = torch.einsum("bhd,bnhd->bhn", q, k) * q.shape[-1] ** -0.5
    s = s.masked_fill(torch.arange(k.shape[1], device=q.device) >= lens[:, None, None], float("-inf"))
    s = torch.cat([s, sink[None, :, None].expand(q.shape[0], -1, 1)], -1)
    return torch.einsum("bhn,bnhd->bhd", s.softmax(-1)[..., :-1], v)


torch.manual_seed(9)
B, H, HKV, S, D, splits = 3, 4, 2, 100, 32, 3
q = 2 * torch.randn(B, H, D, device="cuda")
k, v = (torch.randn(B, S, HKV, D, device="cuda") for _ in range(2))
lens = torch.tensor([100, 61, 5], dtype=torch.int32, device="cuda")
sink = torch.randn(H, device="cuda")
parts = tilelang.compile(split_kernel(B, H, HKV, S, D, splits), out_idx=[4, 5, 6])(q, k, v, lens)
out = tilelang.compile(merge_kernel(B, H, D, splits), out_idx=[4])(*parts, sink)
torch.testing.assert_close(out, reference(q, k, v, lens, sink), rtol=1e-4, atol=1e-4)
print("ok")
