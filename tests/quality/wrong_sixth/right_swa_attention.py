import argparse
import math

import torch
import tilelang
import tilelang.language as T


def swa_fwd(batch, heads, seq, dim, window, block_M=64, block_N=32):
    scale = 1.0 / math.sqrt(dim) * 1.44269504
    shape = (batch, seq, heads, dim)

    @T.prim_func
    def attn(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_s = T.alloc_shared((block_M, dim), "float16")
            K_s = T.alloc_shared((block_N, dim), "float16")
            V_s = T.alloc_shared((block_N, dim), "float16")
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), "float16")
            acc = T.alloc_fragment((block_M, dim), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_prev = T.alloc_fragment((block_M,), "float32")
            corr = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            l = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_s)
            T.clear(acc)
            T.clear(l)
            T.fill(m, -1e30)
            # the tile diagonal goes first, so every row has seen a valid key from then on
            first = T.max(bx * block_M - window + 1, 0) // block_N
            last = T.min((bx + 1) * block_M - 1, seq - 1) // block_N
            for t in T.serial(last - first + 1):
                kb = last - t
                T.copy(K[bz, kb * block_N : (kb + 1) * block_N, by, :], K_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    qi = bx * block_M + i
                    kj = kb * block_N + j
                    S[i, j] = T.if_then_else((kj <= qi) and (qi - kj < window) and (kj < seq), S[i, j], -1e30)
                T.copy(m, m_prev)
                T.reduce_max(S, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    corr[i] = T.exp2((m_prev[i] - m[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2((S[i, j] - m[i]) * scale)
                T.reduce_sum(S, row, dim=1)
                for i in T.Parallel(block_M):
                    l[i] = l[i] * corr[i] + row[i]
                for i, d in T.Parallel(block_M, dim):
                    acc[i, d] *= corr[i]
                T.copy(S, P)
                T.copy(V[bz, kb * block_N : (kb + 1) * block_N, by, :], V_s)
                T.gemm(P, V_s, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, d in T.Parallel(block_M, dim):
                acc[i, d] = acc[i, d] / l[i]
            T.copy(acc, O[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return attn


def ref_swa(q, k, v, window):
    seq, dim = q.shape[1], q.shape[3]
    s = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) / math.sqrt(dim)
    pos = torch.arange(seq, device=q.device)
    delta = pos[:, None] - pos[None, :]
    s = s.masked_fill((delta < 0) | (delta >= window), float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v.float())


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seq", type=int, default=100)
    ap.add_argument("--window", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, args.seq, 2, 32, device="cuda").half() for _ in range(3))
    kernel = tilelang.compile(swa_fwd(1, 2, args.seq, 32, args.window), out_idx=[3])
    o = kernel(q, k, v)
    torch.testing.assert_close(o.float(), ref_swa(q, k, v, args.window), rtol=1e-2, atol=1e-2)
    print("sliding window attention ok")
