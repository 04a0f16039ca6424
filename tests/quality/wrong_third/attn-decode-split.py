"""Decoding attention: the cache is split among blocks, a second kernel combines the parts."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3, 4])
def decode_part(heads, cache, dim, splits, block=32):
    chunk = cache // splits
    scale = dim**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor((heads, dim), "float16"),
        K: T.Tensor((cache, dim), "float16"),
        V: T.Tensor((cache, dim), "float16"),
        Part: T.Tensor((splits, heads, dim), "float32"),
        Lse: T.Tensor((splits, heads), "float32"),
    ):
        with T.Kernel(splits, threads=128) as s:
            q = T.alloc_shared((heads, dim), "float16")
            kv = T.alloc_shared((block, dim), "float16")
            scores = T.alloc_fragment((heads, block), "float32")
            p = T.alloc_shared((heads, block), "float16")
            acc = T.alloc_fragment((heads, dim), "float32")
            big = T.alloc_fragment((heads,), "float32")
            old = T.alloc_fragment((heads,), "float32")
            row = T.alloc_fragment((heads,), "float32")
            total = T.alloc_fragment((heads,), "float32")
            T.copy(Q, q)
            T.clear(acc)
            T.clear(total)
            T.fill(big, -T.infinity("float32"))
            for t in T.serial(chunk // block):
                T.copy(K[s * chunk + t * block, 0], kv)
                T.gemm(q, kv, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(heads, block):
                    scores[i, j] = scores[i, j] * scale
                T.copy(big, old)
                T.reduce_max(scores, big, dim=1, clear=False)
                for i, j in T.Parallel(heads, block):
                    scores[i, j] = T.exp(scores[i, j] - big[i])
                T.reduce_sum(scores, row, dim=1)
                for i in T.Parallel(heads):
                    total[i] = total[i] * T.exp(old[i] - big[i]) + row[i]
                for i, j in T.Parallel(heads, dim):
                    acc[i, j] = acc[i, j] * T.exp(old[i] - big[i])
                T.copy(scores, p)
                T.copy(V[s * chunk + t * block, 0], kv)
                T.gemm(p, kv, acc)
            for i, j in T.Parallel(heads, dim):
                Part[s, i, j] = acc[i, j] / total[i]
            for i in T.Parallel(heads):
                Lse[s, i] = T.log(total[i])  # BUG

    return main


@tilelang.jit(out_idx=[2])
def combine(heads, dim, splits):
    @T.prim_func
    def main(
        Part: T.Tensor((splits, heads, dim), "float32"),
        Lse: T.Tensor((splits, heads), "float32"),
        Out: T.Tensor((heads, dim), "float16"),
    ):
        with T.Kernel(heads, threads=64) as h:
            acc = T.alloc_fragment((dim,), "float32")
            top = T.alloc_local((1,), "float32")
            weight = T.alloc_local((1,), "float32")
            norm = T.alloc_local((1,), "float32")
            T.clear(acc)
            top[0] = Lse[0, h]
            for s in T.serial(1, splits):
                top[0] = T.max(top[0], Lse[s, h])
            norm[0] = 0.0
            for s in T.serial(splits):
                weight[0] = T.exp(Lse[s, h] - top[0])
                norm[0] += weight[0]
                for j in T.Parallel(dim):
                    acc[j] += weight[0] * Part[s, h, j]
            for j in T.Parallel(dim):
                Out[h, j] = acc[j] / norm[0]

    return main


if __name__ == "__main__":
    torch.manual_seed(31)
    heads, cache, dim, splits = 16, 256, 64, 4
    q = 2.0 * torch.randn(heads, dim, device="cuda")
    q, k, v = q.half(), torch.randn(cache, dim, device="cuda").half(), torch.randn(cache, dim, device="cuda").half()
    part, lse = decode_part(heads, cache, dim, splits)(q, k, v)
    out = combine(heads, dim, splits)(part, lse)
    ref = torch.softmax(q.float() @ k.float().t() * dim**-0.5, dim=-1) @ v.float()
    diff = (out.float() - ref).abs().max()
    assert diff < 1e-2, f"decode attention differs by {diff:.4f}"
    print("decode ok")
