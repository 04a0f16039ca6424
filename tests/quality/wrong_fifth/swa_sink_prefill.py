import torch
import tilelang
import tilelang.language as T

LOG2E = 1.4426950408889634


@tilelang.jit(out_idx=[4])
def swa_prefill(heads, seqlen, dim, window, BM=64, BN=32, threads=128):
    scale = (1.0 / dim) ** 0.5 * LOG2E
    shape = (heads, seqlen, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Sinks: T.Tensor((heads,), "float32"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(seqlen, BM), heads, threads=threads) as (bx, h):
            q_s = T.alloc_shared((BM, dim), "float16")
            k_s = T.alloc_shared((BN, dim), "float16")
            v_s = T.alloc_shared((BN, dim), "float16")
            s = T.alloc_fragment((BM, BN), "float32")
            p = T.alloc_fragment((BM, BN), "float16")
            acc = T.alloc_fragment((BM, dim), "float32")
            m = T.alloc_fragment((BM,), "float32")
            m_prev = T.alloc_fragment((BM,), "float32")
            alpha = T.alloc_fragment((BM,), "float32")
            rs = T.alloc_fragment((BM,), "float32")
            l = T.alloc_fragment((BM,), "float32")

            T.copy(Q[h, bx * BM, 0], q_s)
            T.clear(acc)
            # the sink is one more key with no value: it opens the running max and sum
            for i in T.Parallel(BM):
                m[i] = Sinks[h] * LOG2E
                l[i] = 1.0

            lo = T.max(0, ((bx + 1) * BM - window) // BN)  # BUG
            hi = T.ceildiv(T.min((bx + 1) * BM, seqlen), BN)
            for kb in T.serial(lo, hi):
                T.copy(K[h, kb * BN, 0], k_s)
                T.copy(V[h, kb * BN, 0], v_s)
                T.clear(s)
                T.gemm(q_s, k_s, s, transpose_B=True)
                for i, j in T.Parallel(BM, BN):
                    qi = bx * BM + i
                    kj = kb * BN + j
                    s[i, j] = T.if_then_else(kj <= qi and qi - kj < window, s[i, j] * scale, -T.infinity("float32"))
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(BM):
                    alpha[i] = T.exp2(m_prev[i] - m[i])
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.exp2(s[i, j] - m[i])
                T.reduce_sum(s, rs, dim=1)
                T.copy(s, p)
                for i in T.Parallel(BM):
                    l[i] = l[i] * alpha[i] + rs[i]
                for i, d in T.Parallel(BM, dim):
                    acc[i, d] = acc[i, d] * alpha[i]
                T.gemm(p, v_s, acc)
            for i, d in T.Parallel(BM, dim):
                acc[i, d] = acc[i, d] / l[i]
            T.copy(acc, O[h, bx * BM, 0])

    return main


def reference(q, k, v, sinks, window):
    h, s, d = q.shape
    logits = q.float() @ k.float().transpose(1, 2) / d**0.5
    i = torch.arange(s, device=q.device)
    dist = i[:, None] - i[None, :]
    logits.masked_fill_((dist < 0) | (dist >= window), float("-inf"))
    logits = torch.cat([logits, sinks[:, None, None].expand(h, s, 1)], dim=-1)
    return logits.softmax(-1)[..., :-1] @ v.float()


if __name__ == "__main__":
    torch.manual_seed(0)
    H, S, D, W = 2, 160, 32, 40
    q, k, v = (torch.randn(H, S, D, device="cuda").half() for _ in range(3))
    sinks = torch.randn(H, device="cuda")
    out = swa_prefill(H, S, D, W)(q, k, v, sinks)
    torch.testing.assert_close(out.float(), reference(q, k, v, sinks, W), rtol=1e-2, atol=1e-2)
    print("sliding window + sink ok")
