"""Sliding-window causal attention forward with grouped KV heads (B, S, H, D layout)."""
import math

import torch
import tilelang
import tilelang.language as T


def make_kernel(B, S, H, HKV, D, window, BM=64, BN=32):
    scale = 1.44269504 / math.sqrt(D)
    groups = H // HKV

    @T.prim_func
    def swa_fwd(
        Q: T.Tensor((B, S, H, D), "float16"),
        K: T.Tensor((B, S, HKV, D), "float16"),
        V: T.Tensor((B, S, HKV, D), "float16"),
        O: T.Tensor((B, S, H, D), "float16"),
    ):
        with T.Kernel(T.ceildiv(S, BM), H, B, threads=128) as (bx, h, b):
            Qs = T.alloc_shared((BM, D), "float16")
            Ks = T.alloc_shared((BN, D), "float16")
            Vs = T.alloc_shared((BN, D), "float16")
            s = T.alloc_fragment((BM, BN), "float32")
            p = T.alloc_fragment((BM, BN), "float16")
            acc = T.alloc_fragment((BM, D), "float32")
            m = T.alloc_fragment((BM,), "float32")
            m_prev = T.alloc_fragment((BM,), "float32")
            alpha = T.alloc_fragment((BM,), "float32")
            row = T.alloc_fragment((BM,), "float32")
            l = T.alloc_fragment((BM,), "float32")

            T.copy(Q[b, bx * BM : (bx + 1) * BM, h, :], Qs)
            T.clear(acc)
            T.clear(l)
            T.fill(m, -1e30)

            # only the key blocks that the window of this query tile touches
            last = T.min(S, (bx + 1) * BM)
            first = T.max(0, last - window) // BN
            for kb in T.serial(T.ceildiv(last, BN) - first):
                k0 = (first + kb) * BN
                T.copy(K[b, k0 : k0 + BN, h // groups, :], Ks)
                T.copy(V[b, k0 : k0 + BN, h // groups, :], Vs)
                T.clear(s)
                T.gemm(Qs, Ks, s, transpose_B=True)
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.if_then_else(
                        (k0 + j <= bx * BM + i) and (k0 + j > bx * BM + i - window), s[i, j] * scale, -1e30
                    )
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(BM):
                    alpha[i] = T.exp2(m_prev[i] - m[i])
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.if_then_else(s[i, j] > -1e29, T.exp2(s[i, j] - m[i]), 0.0)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(BM):
                    l[i] = l[i] * alpha[i] + row[i]
                for i, j in T.Parallel(BM, D):
                    acc[i, j] *= alpha[i]
                T.copy(s, p)
                T.gemm(p, Vs, acc)

            for i, j in T.Parallel(BM, D):
                acc[i, j] /= T.max(l[i], 1e-20)
            T.copy(acc, O[b, bx * BM : (bx + 1) * BM, h, :])

    return swa_fwd


def reference(q, k, v, window):
    g = q.shape[2] // k.shape[2]
    q, k, v = (t.float().transpose(1, 2) for t in (q, k, v))
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    i = torch.arange(s.shape[-1], device=s.device)
    d = i[:, None] - i[None, :]
    s = s.masked_fill((d < 0) | (d >= window), float("-inf"))
    return (s.softmax(-1) @ v).transpose(1, 2)


def main():
    torch.manual_seed(1)
    B, S, H, HKV, D = 1, 192, 4, 2, 32
    bad = 0
    for window in (S, 128, 48):
        q = torch.randn(B, S, H, D, device="cuda").half()
        k = torch.randn(B, S, HKV, D, device="cuda").half()
        v = torch.randn(B, S, HKV, D, device="cuda").half()
        kernel = tilelang.compile(make_kernel(B, S, H, HKV, D, window), out_idx=[3])
        o = kernel(q, k, v)
        ok = torch.allclose(o.float(), reference(q, k, v, window), rtol=1e-2, atol=1e-2)
        print(f"window {window}: {'ok' if ok else 'MISMATCH'}")
        bad += not ok
    exit(1 if bad else 0)


if __name__ == "__main__":
    main()
