"""Decoding attention split over the keys: one kernel per split, and one that combines the splits."""

import tilelang
import tilelang.language as T
import torch
from tilelang.utils.tensor import torch_assert_close

LOG2E = 1.4426950408889634


@tilelang.jit(out_idx=[3, 4])
def partial(kv_heads, group, length, dim, splits, block=32):
    scale = dim**-0.5 * LOG2E
    per_split = length // splits

    @T.prim_func
    def main(
        Q: T.Tensor((kv_heads, group, dim), "float16"),
        K: T.Tensor((kv_heads, length, dim), "float16"),
        V: T.Tensor((kv_heads, length, dim), "float16"),
        Part: T.Tensor((kv_heads, splits, group, dim), "float32"),
        Lse: T.Tensor((kv_heads, splits, group), "float32"),
    ):
        with T.Kernel(splits, kv_heads, threads=128) as (sp, h):
            q = T.alloc_shared((group, dim), "float16")
            k = T.alloc_shared((block, dim), "float16")
            v = T.alloc_shared((block, dim), "float16")
            s = T.alloc_fragment((group, block), "float32")
            p = T.alloc_shared((group, block), "float16")
            o = T.alloc_fragment((group, dim), "float32")
            m = T.alloc_fragment((group,), "float32")
            m_old = T.alloc_fragment((group,), "float32")
            alpha = T.alloc_fragment((group,), "float32")
            row = T.alloc_fragment((group,), "float32")
            total = T.alloc_fragment((group,), "float32")
            T.copy(Q[h, 0, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(m, -1e30)
            for n in T.serial(per_split // block):
                T.copy(K[h, sp * per_split + n * block, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(group):
                    alpha[i] = T.exp2((m_old[i] - m[i]) * scale)
                for i, j in T.Parallel(group, block):
                    s[i, j] = T.exp2((s[i, j] - m[i]) * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(group):
                    total[i] = total[i] * alpha[i] + row[i]
                for i, j in T.Parallel(group, dim):
                    o[i, j] *= alpha[i]
                T.copy(s, p)
                T.copy(V[h, sp * per_split + n * block, 0], v)
                T.gemm(p, v, o)
            for i, j in T.Parallel(group, dim):
                o[i, j] /= total[i]
            T.copy(o, Part[h, sp, 0, 0])
            for i in T.Parallel(group):
                Lse[h, sp, i] = T.log2(total[i]) + m[i] * scale

    return main


@tilelang.jit(out_idx=[2])
def combine(kv_heads, group, dim, splits):
    @T.prim_func
    def main(
        Part: T.Tensor((kv_heads, splits, group, dim), "float32"),
        Lse: T.Tensor((kv_heads, splits, group), "float32"),
        Out: T.Tensor((kv_heads, group, dim), "float16"),
    ):
        with T.Kernel(kv_heads, threads=128) as h:
            o = T.alloc_fragment((group, dim), "float32")
            top = T.alloc_fragment((group,), "float32")
            weight = T.alloc_fragment((group,), "float32")
            total = T.alloc_fragment((group,), "float32")
            T.clear(o)
            T.clear(total)
            T.fill(top, -1e30)
            for sp in T.serial(splits):
                for i in T.Parallel(group):
                    top[i] = T.max(top[i], Lse[h, sp, i])
            for sp in T.serial(splits):
                for i in T.Parallel(group):
                    weight[i] = T.exp(Lse[h, sp, i] - top[i])  # BUG
                for i in T.Parallel(group):
                    total[i] += weight[i]
                for i, j in T.Parallel(group, dim):
                    o[i, j] += weight[i] * Part[h, sp, i, j]
            for i, j in T.Parallel(group, dim):
                Out[h, i, j] = o[i, j] / total[i]

    return main


if __name__ == "__main__":
    torch.manual_seed(11)
    kv_heads, group, length, dim, splits = 2, 16, 256, 64, 4
    q = torch.randn(kv_heads, group, dim, device="cuda").half() * 2
    k = torch.randn(kv_heads, length, dim, device="cuda").half()
    v = torch.randn(kv_heads, length, dim, device="cuda").half()
    part, lse = partial(kv_heads, group, length, dim, splits)(q, k, v)
    out = combine(kv_heads, group, dim, splits)(part, lse)
    probs = torch.softmax(q.float() @ k.float().transpose(1, 2) * dim**-0.5, dim=-1)
    torch_assert_close(out.float(), probs @ v.float(), rtol=1e-2, atol=5e-3, max_mismatched_ratio=0.0)
    print("decode ok")
