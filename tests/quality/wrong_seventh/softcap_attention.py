import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3])
def softcap_attn(batch, heads, kv_heads, seq, dim, softcap, block_M=32, block_N=32):
    dtype, accum = "float16", "float32"
    scale = dim**-0.5
    groups = heads // kv_heads

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq, dim), dtype),
        K: T.Tensor((batch, kv_heads, seq, dim), dtype),
        V: T.Tensor((batch, kv_heads, seq, dim), dtype),
        O: T.Tensor((batch, heads, seq, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=64) as (bx, h, b):
            Qs = T.alloc_shared((block_M, dim), dtype)
            Ks = T.alloc_shared((block_N, dim), dtype)
            Vs = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_M, block_N), accum)
            P = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), accum)
            m_prev = T.alloc_fragment((block_M,), accum)
            m_new = T.alloc_fragment((block_M,), accum)
            alpha = T.alloc_fragment((block_M,), accum)
            row = T.alloc_fragment((block_M,), accum)
            l = T.alloc_fragment((block_M,), accum)

            T.copy(Q[b, h, bx * block_M : (bx + 1) * block_M, :], Qs)
            T.clear(acc)
            T.clear(l)
            T.fill(m_new, -T.infinity(accum))

            for kb in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_N), num_stages=1):
                T.copy(K[b, h // groups, kb * block_N : (kb + 1) * block_N, :], Ks)
                T.clear(S)
                T.gemm(Qs, Ks, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.if_then_else(bx * block_M + i >= kb * block_N + j, S[i, j] * scale, -T.infinity(accum))  # BUG
                    S[i, j] = softcap * T.tanh(S[i, j] / softcap)  # BUG
                T.copy(m_new, m_prev)
                T.reduce_max(S, m_new, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp(m_prev[i] - m_new[i])
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp(S[i, j] - m_new[i])
                T.reduce_sum(S, row, dim=1)
                for i in T.Parallel(block_M):
                    l[i] = l[i] * alpha[i] + row[i]
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= alpha[i]
                T.copy(S, P)
                T.copy(V[b, h // groups, kb * block_N : (kb + 1) * block_N, :], Vs)
                T.gemm(P, Vs, acc, policy=T.GemmWarpPolicy.FullRow)

            for i, j in T.Parallel(block_M, dim):
                acc[i, j] = acc[i, j] / l[i]
            T.copy(acc, O[b, h, bx * block_M : (bx + 1) * block_M, :])

    return main


def attention_ref(q, k, v, softcap):
    g = q.shape[1] // k.shape[1]
    k = k.float().repeat_interleave(g, dim=1)
    v = v.float().repeat_interleave(g, dim=1)
    logits = q.float() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    logits = softcap * torch.tanh(logits / softcap)
    causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
    return (logits.masked_fill(~causal, float("-inf")).softmax(-1) @ v).half()


torch.manual_seed(0)
B, H, HKV, S, D, CAP = 1, 4, 2, 64, 32, 5.0
q = torch.randn(B, H, S, D, device="cuda", dtype=torch.float16) * 2
k = torch.randn(B, HKV, S, D, device="cuda", dtype=torch.float16)
v = torch.randn(B, HKV, S, D, device="cuda", dtype=torch.float16)
out = softcap_attn(B, H, HKV, S, D, CAP)(q, k, v)
torch.testing.assert_close(out, attention_ref(q, k, v, CAP), rtol=2e-2, atol=2e-2)
print("softcap attention ok")
