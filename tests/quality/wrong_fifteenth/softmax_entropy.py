"""Entropy of softmax(x / temperature) per row in one pass over the columns.

Kept per row:  m = running max,  s = sum exp(x - m),  t = sum exp(x - m) * (x - m);
the entropy is log(s) - t / s.
"""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def row_entropy(X, Out, inv_temp: float = 1.0, BM: int = 16, BN: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Out: T.Tensor[[M], T.float32]

    with T.Kernel(T.ceildiv(M, BM), threads=128) as bm:
        x = T.alloc_fragment((BM, BN), T.float32)
        p = T.alloc_fragment((BM, BN), T.float32)
        xp = T.alloc_fragment((BM, BN), T.float32)
        tile_s = T.alloc_fragment((BM,), T.float32)
        tile_t = T.alloc_fragment((BM,), T.float32)
        m = T.alloc_fragment((BM,), T.float32)
        m_prev = T.alloc_fragment((BM,), T.float32)
        alpha = T.alloc_fragment((BM,), T.float32)
        s = T.alloc_fragment((BM,), T.float32)
        t = T.alloc_fragment((BM,), T.float32)

        T.fill(m, -1e30)
        T.clear(s)
        T.clear(t)
        for c in T.serial(T.ceildiv(N, BN)):
            for i, j in T.Parallel(BM, BN):
                x[i, j] = -1e30
                if bm * BM + i < M and c * BN + j < N:
                    x[i, j] = X[bm * BM + i, c * BN + j] * inv_temp
            for i in T.Parallel(BM):
                m_prev[i] = m[i]
            T.reduce_max(x, m, dim=1, clear=False)
            for i in T.Parallel(BM):
                alpha[i] = T.exp(m_prev[i] - m[i])
            for i, j in T.Parallel(BM, BN):
                p[i, j] = T.exp(x[i, j] - m[i])
                # exp underflows to exactly 0 in the padding
                xp[i, j] = p[i, j] * (x[i, j] - m[i])
            T.reduce_sum(p, tile_s, dim=1)
            T.reduce_sum(xp, tile_t, dim=1)
            for i in T.Parallel(BM):
                t[i] = t[i] * alpha[i] + tile_t[i]
                s[i] = s[i] * alpha[i] + tile_s[i]

        for i in T.Parallel(BM):
            if bm * BM + i < M:
                Out[bm * BM + i] = T.log(s[i]) - t[i] / s[i]


def entropy(x, temperature):
    out = torch.empty(x.shape[0], device=x.device, dtype=torch.float32)
    row_entropy(x, out, inv_temp=1.0 / temperature)
    return out


def main():
    torch.manual_seed(11)
    for (M, N), temperature in [((32, 64), 1.0), ((40, 256), 1.0), ((19, 200), 0.5)]:
        logits = torch.randn(M, N, device="cuda") * 1.5
        got = entropy(logits, temperature)
        logp = torch.log_softmax(logits.double() / temperature, dim=-1)
        want = -(logp.exp() * logp).sum(-1).float()
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        print(M, N, temperature, "ok")


main()
