"""Causal attention; only the blocks on the diagonal are masked, those below it need no mask."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def attention(heads, length, dim, block=64):
    scale = dim**-0.5 * 1.44269504
    shape = (heads, length, dim)

    @T.prim_func
    def kernel(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block), heads, threads=128) as (bx, h):
            q = T.alloc_shared((block, dim), "float16")
            k = T.alloc_shared((block, dim), "float16")
            v = T.alloc_shared((block, dim), "float16")
            s = T.alloc_fragment((block, block), "float32")
            p = T.alloc_fragment((block, block), "float16")
            o = T.alloc_fragment((block, dim), "float32")
            m = T.alloc_fragment((block,), "float32")
            m_old = T.alloc_fragment((block,), "float32")
            alpha = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(Q[h, bx * block, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(m, -1e30)
            for n in T.serial(bx + 1):
                T.copy(K[h, n * block, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if n == bx:
                    for i, j in T.Parallel(block, block):
                        s[i, j] = T.if_then_else(i < j, -1e30, s[i, j])
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block):
                    alpha[i] = T.exp2((m_old[i] - m[i]) * scale)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.exp2((s[i, j] - m[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * alpha[i] + part[i]
                for i, j in T.Parallel(block, dim):
                    o[i, j] = o[i, j] * alpha[i]
                T.copy(s, p)
                T.copy(V[h, n * block, 0], v)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block, dim):
                o[i, j] = o[i, j] / total[i]
            T.copy(o, Out[h, bx * block, 0])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    heads, length, dim = 2, 192, 64
    q, k, v = (torch.randn(heads, length, dim, device="cuda").half() for _ in range(3))
    out = attention(heads, length, dim)(q, k, v)
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=2e-3)
    print("attention ok")
