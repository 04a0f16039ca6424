"""Gated linear attention (scalar gate per step), chunk-wise form.

S_t = exp(g_t) S_{t-1} + k_t v_t^T,   o_t = q_t S_t
"""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def gla_chunk(Q, K, V, G, chunk: int = 16):
    BH, L, DK, DV = T.const("BH, L, DK, DV")
    Q: T.Tensor[[BH, L, DK], T.float16]
    K: T.Tensor[[BH, L, DK], T.float16]
    V: T.Tensor[[BH, L, DV], T.float16]
    G: T.Tensor[[BH, L], T.float32]
    O = T.empty((BH, L, DV), T.float32)

    with T.Kernel(BH, threads=64) as bh:
        q_s = T.alloc_shared((chunk, DK), T.float16)
        k_s = T.alloc_shared((chunk, DK), T.float16)
        kd_s = T.alloc_shared((chunk, DK), T.float16)
        v_s = T.alloc_shared((chunk, DV), T.float16)
        g_s = T.alloc_shared((chunk,), T.float32)
        gc_s = T.alloc_shared((chunk,), T.float32)
        g_end = T.alloc_shared((1,), T.float32)
        st_s = T.alloc_shared((DK, DV), T.float16)
        p_s = T.alloc_shared((chunk, chunk), T.float16)
        state = T.alloc_fragment((DK, DV), T.float32)
        p = T.alloc_fragment((chunk, chunk), T.float32)
        o = T.alloc_fragment((chunk, DV), T.float32)

        T.clear(state)
        for c in T.serial(L // chunk):
            T.copy(Q[bh, c * chunk : (c + 1) * chunk, :], q_s)
            T.copy(K[bh, c * chunk : (c + 1) * chunk, :], k_s)
            T.copy(V[bh, c * chunk : (c + 1) * chunk, :], v_s)
            for i in T.Parallel(chunk):
                g_s[i] = G[bh, c * chunk + i]
            for i in T.Parallel(chunk):
                gc_s[i] = 0.0
                for j in T.serial(chunk):
                    gc_s[i] = gc_s[i] + T.if_then_else(j <= i, g_s[j], 0.0)
            for i in T.Parallel(1):
                g_end[i] = g_s[chunk - 1]  # BUG

            for i, j in T.Parallel(DK, DV):
                st_s[i, j] = T.cast(state[i, j], T.float16)
            T.clear(o)
            T.gemm(q_s, st_s, o)
            for i, j in T.Parallel(chunk, DV):
                o[i, j] = o[i, j] * T.exp(gc_s[i])

            T.clear(p)
            T.gemm(q_s, k_s, p, transpose_B=True)
            for i, j in T.Parallel(chunk, chunk):
                p_s[i, j] = T.if_then_else(j <= i, p[i, j] * T.exp(gc_s[i] - gc_s[j]), 0.0)
            T.gemm(p_s, v_s, o)
            T.copy(o, O[bh, c * chunk : (c + 1) * chunk, :])

            for i, j in T.Parallel(chunk, DK):
                kd_s[i, j] = k_s[i, j] * T.exp(g_end[0] - gc_s[i])
            for i, j in T.Parallel(DK, DV):
                state[i, j] = state[i, j] * T.exp(g_end[0])
            T.gemm(kd_s, v_s, state, transpose_A=True)
    return O


def recurrent(q, k, v, g):
    q, k, v = q.float(), k.float(), v.float()
    s = torch.zeros(q.shape[0], q.shape[2], v.shape[2], device=q.device)
    outs = []
    for t in range(q.shape[1]):
        s = s * g[:, t].exp()[:, None, None] + k[:, t, :, None] * v[:, t, None, :]
        outs.append((q[:, t, None, :] @ s)[:, 0])
    return torch.stack(outs, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    BH, L, D = 2, 64, 32
    q = (torch.randn(BH, L, D, device="cuda") / 4).half()
    k = (torch.randn(BH, L, D, device="cuda") / 4).half()
    v = torch.randn(BH, L, D, device="cuda").half()
    g = torch.nn.functional.logsigmoid(torch.randn(BH, L, device="cuda") + 2)
    torch.testing.assert_close(gla_chunk(q, k, v, g), recurrent(q, k, v, g), rtol=2e-2, atol=2e-2)
    print("pass")
