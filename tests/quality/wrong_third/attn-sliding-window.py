"""Causal attention with a sliding window: query q sees the keys q - window + 1 .. q."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def window_attention(batch, heads, seq, dim, window, block_M=64, block_N=64):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = (batch, seq, heads, dim)

    @T.prim_func
    def main(
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
            fix = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_s)
            T.clear(acc)
            T.clear(total)
            T.fill(m, -1e30)
            for k in T.Pipelined(bx + 1, num_stages=1):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    q = bx * block_M + i
                    key = k * block_N + j
                    S[i, j] = T.if_then_else(key <= q and q - key <= window, S[i, j] * scale, -1e30)  # BUG
                T.copy(m, m_prev)
                T.reduce_max(S, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    fix[i] = T.exp2(m_prev[i] - m[i])
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] - m[i])
                T.reduce_sum(S, row, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * fix[i] + row[i]
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= fix[i]
                T.copy(S, P)
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_s)
                T.gemm(P, V_s, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= total[i]
            T.copy(acc, O[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


def reference(q, k, v, window):
    seq = q.shape[1]
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) * q.shape[-1] ** -0.5
    gap = torch.arange(seq, device=q.device)[:, None] - torch.arange(seq, device=q.device)[None, :]
    scores = scores.masked_fill((gap < 0) | (gap >= window), float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v.float())


if __name__ == "__main__":
    torch.manual_seed(5)
    B, H, S, D, W = 1, 2, 128, 32, 20
    q, k, v = (torch.randn(B, S, H, D, device="cuda").half() for _ in range(3))
    out = window_attention(B, H, S, D, W)(q, k, v)
    torch.testing.assert_close(out.float(), reference(q, k, v, W), rtol=1e-2, atol=1e-2)
    print("window attention ok")
