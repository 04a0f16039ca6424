"""Grouped-query attention: several query heads share one head of keys and values."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def gqa(q_heads, kv_heads, length, dim, block=64):
    scale = dim**-0.5

    @T.prim_func
    def kernel(
        Q: T.Tensor((q_heads, length, dim), "float16"),
        K: T.Tensor((kv_heads, length, dim), "float16"),
        V: T.Tensor((kv_heads, length, dim), "float16"),
        Out: T.Tensor((q_heads, length, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block), q_heads, threads=128) as (bx, h):
            q = T.alloc_shared((block, dim), "float16")
            k = T.alloc_shared((block, dim), "float16")
            v = T.alloc_shared((block, dim), "float16")
            s = T.alloc_fragment((block, block), "float32")
            p = T.alloc_fragment((block, block), "float16")
            acc = T.alloc_fragment((block, dim), "float32")
            m = T.alloc_fragment((block,), "float32")
            m_last = T.alloc_fragment((block,), "float32")
            factor = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((block,), "float32")
            norm = T.alloc_fragment((block,), "float32")

            kv = h % kv_heads  # BUG
            T.copy(Q[h, bx * block, 0], q)
            T.clear(acc)
            T.clear(norm)
            T.fill(m, -T.infinity("float32"))
            for n in T.Pipelined(T.ceildiv(length, block), num_stages=1):
                T.copy(K[kv, n * block, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_last)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block):
                    factor[i] = T.exp(m_last[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.exp(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(block):
                    norm[i] = norm[i] * factor[i] + part[i]
                for i, j in T.Parallel(block, dim):
                    acc[i, j] = acc[i, j] * factor[i]
                T.copy(s, p)
                T.copy(V[kv, n * block, 0], v)
                T.gemm(p, v, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block, dim):
                acc[i, j] = acc[i, j] / norm[i]
            T.copy(acc, Out[h, bx * block, 0])

    return kernel


def main(q_heads=4, kv_heads=2, length=128, dim=64):
    torch.manual_seed(9)
    q = torch.randn(q_heads, length, dim, device="cuda", dtype=torch.float16)
    k = torch.randn(kv_heads, length, dim, device="cuda", dtype=torch.float16)
    v = torch.randn(kv_heads, length, dim, device="cuda", dtype=torch.float16)
    out = gqa(q_heads, kv_heads, length, dim)(q, k, v)
    keys = k.float().repeat_interleave(q_heads // kv_heads, dim=0)
    values = v.float().repeat_interleave(q_heads // kv_heads, dim=0)
    weights = (q.float() @ keys.transpose(1, 2) * dim**-0.5).softmax(-1)
    torch.testing.assert_close(out, (weights @ values).half(), rtol=1e-2, atol=1e-2)
    print("gqa ok")


if __name__ == "__main__":
    main()
