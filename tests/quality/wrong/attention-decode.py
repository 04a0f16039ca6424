"""One step of decoding: a single query per head attends to its cache."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def decode(heads, length, dim):
    @T.prim_func
    def kernel(
        q: T.Tensor((heads, dim), "float32"),
        k_cache: T.Tensor((heads, length, dim), "float32"),
        v_cache: T.Tensor((heads, length, dim), "float32"),
        out: T.Tensor((heads, dim), "float32"),
    ):
        with T.Kernel(heads, threads=128) as h:
            keys = T.alloc_fragment((length, dim), "float32")
            scores = T.alloc_fragment((length,), "float32")
            peak = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            weights = T.alloc_shared((length,), "float32")
            values = T.alloc_fragment((length, dim), "float32")
            result = T.alloc_fragment((dim,), "float32")

            for t, d in T.Parallel(length, dim):
                keys[t, d] = k_cache[h, t, d] * q[h, d]
            T.reduce_sum(keys, scores, dim=1)  # BUG
            T.reduce_max(scores, peak, dim=0)
            for t in T.Parallel(length):
                scores[t] = T.exp(scores[t] - peak[0])  # BUG
            T.reduce_sum(scores, total, dim=0)
            for t in T.Parallel(length):
                weights[t] = scores[t] / total[0]
            for t, d in T.Parallel(length, dim):
                values[t, d] = weights[t] * v_cache[h, t, d]
            T.reduce_sum(values, result, dim=0)
            T.copy(result, out[h, 0])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    heads, length, dim = 8, 128, 64
    q = torch.randn(heads, dim, device="cuda")
    k = torch.randn(heads, length, dim, device="cuda")
    v = torch.randn(heads, length, dim, device="cuda")
    out = decode(heads, length, dim)(q, k, v)
    weights = torch.softmax(torch.einsum("hd,hld->hl", q, k) / dim**0.5, dim=-1)
    torch.testing.assert_close(out, torch.einsum("hl,hld->hd", weights, v), rtol=1e-3, atol=1e-3)
    print("decode ok")
