"""Grouped-query attention, several query heads to one key head, any number of keys."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def gqa(batch, heads, kv_heads, seq_q, seq_k, dim, block_M=64, block_N=64):
    group = heads // kv_heads
    scale = dim**-0.5 * 1.4426950408889634

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq_q, dim), "float16"),
        K: T.Tensor((batch, kv_heads, seq_k, dim), "float16"),
        V: T.Tensor((batch, kv_heads, seq_k, dim), "float16"),
        O: T.Tensor((batch, heads, seq_q, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=128) as (bx, h, b):
            q = T.alloc_shared((block_M, dim), "float16")
            k = T.alloc_shared((block_N, dim), "float16")
            v = T.alloc_shared((block_N, dim), "float16")
            s = T.alloc_fragment((block_M, block_N), "float32")
            p = T.alloc_fragment((block_M, block_N), "float16")
            o = T.alloc_fragment((block_M, dim), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_old = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[b, h, bx * block_M, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(m, -T.infinity("float32"))
            for t in T.Pipelined(T.ceildiv(seq_k, block_N), num_stages=2):
                T.copy(K[b, h // group, t * block_N, 0], k)
                T.copy(V[b, h // group, t * block_N, 0], v)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.if_then_else(t * block_N + j < seq_k, 0.0, -T.infinity("float32"))
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2((s[i, j] - m[i]) * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp2((m_old[i] - m[i]) * scale) + row[i]
                for i, j in T.Parallel(block_M, dim):
                    o[i, j] *= T.exp2((m_old[i] - m[i]) * scale)
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] /= total[i]
            T.copy(o, O[b, h, bx * block_M, 0])

    return main


if __name__ == "__main__":
    torch.manual_seed(200)
    batch, heads, kv_heads, seq_q, seq_k, dim = 1, 4, 2, 64, 100, 32
    q = torch.randn(batch, heads, seq_q, dim, device="cuda").half()
    k = torch.randn(batch, kv_heads, seq_k, dim, device="cuda").half()
    v = torch.randn(batch, kv_heads, seq_k, dim, device="cuda").half()
    o = gqa(batch, heads, kv_heads, seq_q, seq_k, dim)(q, k, v)
    kk, vv = (t.float().repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
    ref = torch.softmax(q.float() @ kk.transpose(-1, -2) * dim**-0.5, dim=-1) @ vv
    torch.testing.assert_close(o.float(), ref, rtol=1e-2, atol=1e-2)
    print("gqa ok")
