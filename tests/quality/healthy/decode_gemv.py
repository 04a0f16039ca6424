"""One decoding step: a vector times a matrix, and attention of one query over a cache, head by head."""

import tilelang
import tilelang.language as T
import torch


def gemv(n, k, block_n=32, block_k=128):
    @T.prim_func
    def kernel(w: T.Tensor((n, k), "float16"), v: T.Tensor((k,), "float16"), y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block_n), threads=128) as bn:
            w_tile = T.alloc_shared((block_n, block_k), "float16")
            products = T.alloc_fragment((block_n, block_k), "float32")
            sums = T.alloc_fragment((block_n,), "float32")
            T.clear(sums)
            for ko in T.serial(T.ceildiv(k, block_k)):
                T.copy(w[bn * block_n, ko * block_k], w_tile)
                for i, j in T.Parallel(block_n, block_k):
                    products[i, j] = T.cast(w_tile[i, j], "float32") * T.cast(v[ko * block_k + j], "float32")
                T.reduce_sum(products, sums, dim=1, clear=False)
            T.copy(sums, y[bn * block_n])

    return kernel


def decode_attention(heads, length, dim, chunk=64):
    scale = dim**-0.5

    @T.prim_func
    def kernel(
        q: T.Tensor((heads, dim), "float16"),
        k_cache: T.Tensor((length, heads, dim), "float16"),
        v_cache: T.Tensor((length, heads, dim), "float16"),
        out: T.Tensor((heads, dim), "float32"),
    ):
        with T.Kernel(heads, threads=128) as h:
            keys = T.alloc_fragment((length, dim), "float32")
            scores = T.alloc_fragment((1, length), "float32")
            weights = T.alloc_shared((length,), "float32")
            peak = T.alloc_fragment((1,), "float32")
            norm = T.alloc_fragment((1,), "float32")
            values = T.alloc_fragment((chunk, dim), "float32")
            result = T.alloc_fragment((dim,), "float32")
            score_column = T.alloc_fragment((length,), "float32")

            for t, d in T.Parallel(length, dim):
                keys[t, d] = T.cast(k_cache[t, h, d], "float32") * T.cast(q[h, d], "float32") * scale
            T.reduce_sum(keys, score_column, dim=1)
            T.copy(score_column, weights)
            for t in T.Parallel(length):
                scores[0, t] = weights[t]
            T.reduce_max(scores, peak, dim=1)
            for t in T.Parallel(length):
                scores[0, t] = T.exp(scores[0, t] - peak[0])
            T.reduce_sum(scores, norm, dim=1)
            for t in T.Parallel(length):
                weights[t] = scores[0, t] / norm[0]
            T.clear(result)
            for c in T.serial(length // chunk):
                for t, d in T.Parallel(chunk, dim):
                    values[t, d] = weights[c * chunk + t] * T.cast(v_cache[c * chunk + t, h, d], "float32")
                T.reduce_sum(values, result, dim=0, clear=False)
            for d in T.Parallel(dim):
                out[h, d] = result[d]

    return kernel


if __name__ == "__main__":
    w = torch.randn(256, 512, device="cuda", dtype=torch.float16)
    v = torch.randn(512, device="cuda", dtype=torch.float16)
    y = tilelang.compile(gemv(256, 512), out_idx=-1)(w, v)
    torch.testing.assert_close(y, w.float() @ v.float(), rtol=1e-3, atol=1e-2)

    heads, length, dim = 4, 128, 64
    q = torch.randn(heads, dim, device="cuda", dtype=torch.float16)
    k, v = torch.randn(2, length, heads, dim, device="cuda", dtype=torch.float16)
    attend = tilelang.compile(decode_attention(heads, length, dim), out_idx=-1)
    weights = torch.softmax(torch.einsum("hd,thd->ht", q.float(), k.float()) * dim**-0.5, dim=-1)
    expected = torch.einsum("ht,thd->hd", weights, v.float())
    torch.testing.assert_close(attend(q, k, v), expected, rtol=1e-3, atol=1e-3)
    print("decoding step ok")
