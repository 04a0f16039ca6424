"""Causal sliding-window attention with grouped K/V heads. Layout (B, T, H, D), window counts the token itself."""
import torch
import tilelang
import tilelang.language as T

LOG2E = 1.4426950408889634


@tilelang.jit(out_idx=[3])
def swa(B, H, HKV, Tn, D, window, BM=64, BN=32, threads=128):
    qscale = D**-0.5 * LOG2E
    rep = H // HKV
    fp = "float16"

    @T.prim_func
    def attention(
        Q: T.Tensor((B, Tn, H, D), fp),
        K: T.Tensor((B, Tn, HKV, D), fp),
        V: T.Tensor((B, Tn, HKV, D), fp),
        O: T.Tensor((B, Tn, H, D), fp),
    ):
        with T.Kernel(T.ceildiv(Tn, BM), H, B, threads=threads) as (bx, h, b):
            q = T.alloc_shared((BM, D), fp)
            k = T.alloc_shared((BN, D), fp)
            v = T.alloc_shared((BN, D), fp)
            s = T.alloc_fragment((BM, BN), "float32")
            p = T.alloc_fragment((BM, BN), fp)
            o = T.alloc_fragment((BM, D), "float32")
            m = T.alloc_fragment((BM,), "float32")
            m_prev = T.alloc_fragment((BM,), "float32")
            fix = T.alloc_fragment((BM,), "float32")
            l_cur = T.alloc_fragment((BM,), "float32")
            l = T.alloc_fragment((BM,), "float32")

            T.copy(Q[b, bx * BM : (bx + 1) * BM, h, :], q)
            T.fill(o, 0)
            T.fill(l, 0)
            T.fill(m, -1e30)

            # only K tiles that some row of this Q tile can see
            q_first = bx * BM
            q_last = bx * BM + BM - 1
            lo = T.max(0, q_last - window + 1) // BN
            hi = T.min(T.ceildiv(q_last + 1, BN), T.ceildiv(Tn, BN))
            for t in T.serial(hi - lo):
                n0 = (lo + t) * BN
                T.copy(K[b, n0 : n0 + BN, h // rep, :], k)
                T.copy(V[b, n0 : n0 + BN, h // rep, :], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(BM, BN):
                    delta = q_first + i - (n0 + j)
                    s[i, j] = T.if_then_else(delta >= 0 and delta < window, s[i, j] * qscale, -1e30)
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(BM):
                    fix[i] = T.exp2(m_prev[i] - m[i])
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.if_then_else(s[i, j] > -1e29, T.exp2(s[i, j] - m[i]), 0.0)
                T.reduce_sum(s, l_cur, dim=1)
                for i in T.Parallel(BM):
                    l[i] = l[i] * fix[i] + l_cur[i]
                for i, j in T.Parallel(BM, D):
                    o[i, j] *= fix[i]
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)

            for i, j in T.Parallel(BM, D):
                o[i, j] = o[i, j] / T.max(l[i], 1e-20)
            T.copy(o, O[b, bx * BM : (bx + 1) * BM, h, :])

    return attention


def ref_swa(q, k, v, window):
    rep = q.shape[2] // k.shape[2]
    qh, kh, vh = (t.float().transpose(1, 2) for t in (q, k.repeat_interleave(rep, 2), v.repeat_interleave(rep, 2)))
    n = torch.arange(q.shape[1], device=q.device)
    delta = n[:, None] - n[None, :]
    keep = (delta >= 0) & (delta < window)
    s = (qh @ kh.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return (s.masked_fill(~keep, float("-inf")).softmax(-1) @ vh).transpose(1, 2)


if __name__ == "__main__":
    torch.manual_seed(0)
    B, H, HKV, Tn, D = 1, 4, 2, 128, 32
    q = torch.randn(B, Tn, H, D, device="cuda").half()
    k, v = (torch.randn(B, Tn, HKV, D, device="cuda").half() for _ in range(2))
    for window in (128, 64, 24):
        out = swa(B, H, HKV, Tn, D, window)(q, k, v)
        err = (out.float() - ref_swa(q, k, v, window)).abs().max().item()
        print(f"window {window}: max err {err:.4f}")
        assert err < 1e-2, f"window {window}"
