"""Causal attention in which a query sees the last `window` keys, its own included."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def window_attention(heads, length, dim, window, block=64):
    assert window <= block
    scale = dim**-0.5 * 1.4426950408889634
    shape = (heads, length, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block), heads, threads=128) as (bx, h):
            q = T.alloc_shared((block, dim), "float16")
            k = T.alloc_shared((block, dim), "float16")
            v = T.alloc_shared((block, dim), "float16")
            s = T.alloc_fragment((block, block), "float32")
            p = T.alloc_fragment((block, block), "float16")
            acc = T.alloc_fragment((block, dim), "float32")
            m = T.alloc_fragment((block,), "float32")
            m_prev = T.alloc_fragment((block,), "float32")
            fix = T.alloc_fragment((block,), "float32")
            row = T.alloc_fragment((block,), "float32")
            denom = T.alloc_fragment((block,), "float32")
            T.copy(Q[h, bx * block, 0], q)
            T.clear(acc)
            T.clear(denom)
            T.fill(m, -1e30)
            for n in T.serial(T.max(bx - 1, 0), bx + 1):
                T.copy(K[h, n * block, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block, block):
                    ahead = (bx * block + i) - (n * block + j)
                    s[i, j] = T.if_then_else(ahead < 0 or ahead > window, -1e30, s[i, j])  # BUG
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block):
                    fix[i] = T.exp2((m_prev[i] - m[i]) * scale)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.exp2((s[i, j] - m[i]) * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(block):
                    denom[i] = denom[i] * fix[i] + row[i]
                for i, j in T.Parallel(block, dim):
                    acc[i, j] = acc[i, j] * fix[i]
                T.copy(s, p)
                T.copy(V[h, n * block, 0], v)
                T.gemm(p, v, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block, dim):
                acc[i, j] = acc[i, j] / denom[i]
            T.copy(acc, O[h, bx * block, 0])

    return main


def reference(q, k, v, window):
    n, d = q.shape[1:]
    scores = q.float() @ k.float().transpose(1, 2) / d**0.5
    gap = torch.arange(n, device=q.device)[:, None] - torch.arange(n, device=q.device)[None, :]
    scores = scores.masked_fill((gap < 0) | (gap >= window), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v.float()


if __name__ == "__main__":
    torch.manual_seed(7)
    heads, length, dim, window = 2, 256, 64, 16
    q, k, v = (torch.randn(heads, length, dim, device="cuda").half() for _ in range(3))
    out = window_attention(heads, length, dim, window)(q, k, v)
    torch.testing.assert_close(out.float(), reference(q, k, v, window), rtol=1e-2, atol=1e-2)
    print("window attention ok")
