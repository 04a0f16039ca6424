"""Causal flash attention with grouped key/value heads, exponentials in base two."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def attention(batch, heads, kv_heads, seq, dim, block_M=32, block_N=32):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    group = heads // kv_heads

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq, dim), "float16"),
        K: T.Tensor((batch, kv_heads, seq, dim), "float16"),
        V: T.Tensor((batch, kv_heads, seq, dim), "float16"),
        O: T.Tensor((batch, heads, seq, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=64) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), "float16")
            K_shared = T.alloc_shared((block_N, dim), "float16")
            V_shared = T.alloc_shared((block_N, dim), "float16")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            probs = T.alloc_fragment((block_M, block_N), "float16")
            acc = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            row_max_prev = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            denom = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.fill(acc, 0)
            T.fill(denom, 0)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_N), num_stages=1):
                T.copy(K[bz, by // group, k * block_N : (k + 1) * block_N, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.if_then_else(
                        bx * block_M + i >= k * block_N + j, 0.0, -T.infinity("float32")
                    )
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(row_max, row_max_prev)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp(row_max_prev[i] * scale - row_max[i] * scale)  # BUG
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    denom[i] = denom[i] * rescale[i] + row_sum[i]
                T.copy(scores, probs)
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] = acc[i, j] * rescale[i]
                T.copy(V[bz, by // group, k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(probs, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] = acc[i, j] / denom[i]
            T.copy(acc, O[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    batch, heads, kv_heads, seq, dim = 1, 2, 1, 96, 32
    q = torch.randn(batch, heads, seq, dim, device="cuda", dtype=torch.float16)
    k = torch.randn(batch, kv_heads, seq, dim, device="cuda", dtype=torch.float16)
    v = torch.randn(batch, kv_heads, seq, dim, device="cuda", dtype=torch.float16)
    out = attention(batch, heads, kv_heads, seq, dim)(q, k, v)
    kk = k.repeat_interleave(heads // kv_heads, dim=1).float()
    vv = v.repeat_interleave(heads // kv_heads, dim=1).float()
    s = q.float() @ kk.transpose(-1, -2) / dim**0.5
    mask = torch.ones(seq, seq, device="cuda", dtype=torch.bool).tril()
    want = torch.softmax(s.masked_fill(~mask, float("-inf")), dim=-1) @ vv
    torch.testing.assert_close(out.float(), want, rtol=1e-2, atol=1e-2)
    print("attention ok")
