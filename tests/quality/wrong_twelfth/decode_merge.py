"""Single query decode with a ragged KV length: each split leaves (max, sum, acc), a second kernel merges them."""
import torch
import tilelang
import tilelang.language as T

NEG = -1.0e30


@tilelang.jit(out_idx=[4, 5])
def decode_split(B, Lmax, D, S, BN=16):
    tiles = -(-Lmax // (S * BN))

    @T.prim_func
    def main(
        Q: T.Tensor((B, D), "float32"),
        K: T.Tensor((B, Lmax, D), "float32"),
        V: T.Tensor((B, Lmax, D), "float32"),
        Len: T.Tensor((B,), "int32"),
        Acc: T.Tensor((B, S, D), "float32"),
        Stat: T.Tensor((B, S, 2), "float32"),
    ):
        with T.Kernel(S, B, threads=32) as (sp, b):
            score = T.alloc_shared((BN,), "float32")
            acc = T.alloc_shared((D,), "float32")
            dot = T.alloc_local((1,), "float32")
            m = T.alloc_local((1,), "float32")
            m_old = T.alloc_local((1,), "float32")
            l = T.alloc_local((1,), "float32")
            m[0] = NEG
            l[0] = 0.0
            for d in T.Parallel(D):
                acc[d] = 0.0
            for t in T.serial(tiles):
                k0 = (sp * tiles + t) * BN
                if k0 < Len[b]:
                    for j in T.Parallel(BN):
                        dot[0] = NEG
                        if k0 + j < Len[b]:
                            dot[0] = 0.0
                            for d in T.serial(D):
                                dot[0] += Q[b, d] * K[b, k0 + j, d]
                        score[j] = dot[0]
                    m_old[0] = m[0]
                    for j in T.serial(BN):
                        m[0] = T.max(m[0], score[j])
                    l[0] = l[0] * T.exp(m_old[0] - m[0])
                    for j in T.serial(BN):
                        l[0] += T.exp(score[j] - m[0])
                    for d in T.Parallel(D):
                        acc[d] = acc[d] * T.exp(m_old[0] - m[0])
                        for j in T.serial(T.min(BN, Len[b] - k0)):
                            acc[d] += T.exp(score[j] - m[0]) * V[b, k0 + j, d]
            for d in T.Parallel(D):
                Acc[b, sp, d] = acc[d]
            for c in T.Parallel(2):
                Stat[b, sp, c] = T.if_then_else(c == 0, m[0], l[0])

    return main


@tilelang.jit(out_idx=[2])
def merge(B, D, S):
    @T.prim_func
    def main(Acc: T.Tensor((B, S, D), "float32"), Stat: T.Tensor((B, S, 2), "float32"), O: T.Tensor((B, D), "float32")):
        with T.Kernel(B, threads=32) as b:
            top = T.alloc_local((1,), "float32")
            den = T.alloc_local((1,), "float32")
            top[0], den[0] = NEG, 0.0
            for s in T.serial(S):
                top[0] = T.max(top[0], Stat[b, s, 0])
            for s in T.serial(S):
                den[0] += Stat[b, s, 1] * T.exp(Stat[b, s, 0] - top[0])
            for d in T.Parallel(D):
                O[b, d] = 0.0
                for s in T.serial(S):
                    O[b, d] += Acc[b, s, d] * T.exp(Stat[b, s, 0] - top[0]) / den[0]

    return main


torch.manual_seed(2)
B, Lmax, D, lens = 4, 150, 32, [150, 1, 47, 96]
q = torch.randn(B, D, device="cuda") * 0.5
k, v = torch.randn(B, Lmax, D, device="cuda"), torch.randn(B, Lmax, D, device="cuda")
for S in (1, 3, 4):
    part = decode_split(B, Lmax, D, S)(q, k, v, torch.tensor(lens, dtype=torch.int32, device="cuda"))
    out = merge(B, D, S)(*part)
    for b, n in enumerate(lens):
        ref = (k[b, :n] @ q[b]).softmax(0) @ v[b, :n]
        assert torch.allclose(out[b], ref, rtol=1e-4, atol=1e-4), (S, b)
