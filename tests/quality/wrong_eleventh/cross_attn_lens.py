"""Cross attention onto encoder states of unequal length; a batch entry without keys must return zeros."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def cross_attention(B, H, Sq, Sk, D, block_M=32, block_N=32, dtype="float16"):
    scale = 1.4426950408889634 * D**-0.5  # softmax in base 2

    @T.macro
    def online_update(s, m, m_new, shift, l, row_sum, acc):
        T.reduce_max(s, m_new, dim=1)
        for i in T.Parallel(block_M):
            m_new[i] = T.max(m_new[i], m[i])
            shift[i] = T.exp2((m[i] - m_new[i]) * scale)
        for i, j in T.Parallel(block_M, block_N):
            s[i, j] = T.exp2((s[i, j] - m_new[i]) * scale)
        T.reduce_sum(s, row_sum, dim=1)
        for i in T.Parallel(block_M):
            l[i] = l[i] * shift[i] + row_sum[i]
            m[i] = m_new[i]
        for i, d in T.Parallel(block_M, D):
            acc[i, d] *= shift[i]

    @T.prim_func
    def main(
        Q: T.Tensor((B, H, Sq, D), dtype),
        K: T.Tensor((B, H, Sk, D), dtype),
        V: T.Tensor((B, H, Sk, D), dtype),
        KLen: T.Tensor((B,), "int32"),
        O: T.Tensor((B, H, Sq, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(Sq, block_M), H, B, threads=128) as (bx, h, b):
            q_s = T.alloc_shared((block_M, D), dtype)
            k_s = T.alloc_shared((block_N, D), dtype)
            v_s = T.alloc_shared((block_N, D), dtype)
            p_s = T.alloc_shared((block_M, block_N), dtype)
            s = T.alloc_fragment((block_M, block_N), "float32")
            acc = T.alloc_fragment((block_M, D), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_new = T.alloc_fragment((block_M,), "float32")
            shift = T.alloc_fragment((block_M,), "float32")
            l = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[b, h, bx * block_M, 0], q_s)
            T.clear(acc)
            T.clear(l)
            T.fill(m, -1e30)
            # every tile visited holds at least one valid key, so the maximum is always a real score
            for t in T.serial(T.ceildiv(KLen[b], block_N)):
                T.copy(K[b, h, t * block_N, 0], k_s)
                T.copy(V[b, h, t * block_N, 0], v_s)
                T.clear(s)
                T.gemm(q_s, k_s, s, transpose_B=True)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.if_then_else(t * block_N + j < KLen[b], s[i, j], -1e30)
                online_update(s, m, m_new, shift, l, row_sum, acc)
                T.copy(s, p_s)
                T.gemm(p_s, v_s, acc)
            for i, d in T.Parallel(block_M, D):
                if bx * block_M + i < Sq:
                    O[b, h, bx * block_M + i, d] = acc[i, d] / T.max(l[i], 1e-20)

    return main


def reference(q, k, v, klen):
    out = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    for b, n in enumerate(klen.tolist()):
        if n:
            p = (q[b].float() @ k[b, :, :n].float().mT * q.shape[-1] ** -0.5).softmax(-1)
            out[b] = p @ v[b, :, :n].float()
    return out


torch.manual_seed(6)
for Sq, Sk in [(32, 64), (45, 100)]:
    klen = torch.tensor([Sk, 0, 33, 7], dtype=torch.int32, device="cuda")
    q = torch.randn(4, 2, Sq, 64, device="cuda").half()
    k, v = torch.randn(2, 4, 2, Sk, 64, device="cuda").half()
    out = cross_attention(4, 2, Sq, Sk, 64)(q, k, v, klen)
    assert not out[1].any(), "entry without keys is not zero"
    torch.testing.assert_close(out, reference(q, k, v, klen), rtol=1e-2, atol=1e-2)
    print(f"Sq={Sq} Sk={Sk}: ok")
