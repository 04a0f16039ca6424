"""Chunkwise retention: S_t = gamma S_{t-1} + k_t v_t^T, o_t = q_t S_t; per-head gamma, state kept on chip."""
import math

import torch
import tilelang
import tilelang.language as T


def make_retention(heads, seq, dk, dv, C=32):
    chunks = seq // C

    @T.prim_func
    def retention(
        Q: T.Tensor((heads, seq, dk), "float32"),
        K: T.Tensor((heads, seq, dk), "float32"),
        V: T.Tensor((heads, seq, dv), "float32"),
        LogG: T.Tensor((heads,), "float32"),
        O: T.Tensor((heads, seq, dv), "float32"),
        State: T.Tensor((heads, dk, dv), "float32"),
    ):
        with T.Kernel(heads, threads=128) as h:
            q = T.alloc_shared((C, dk), "float32")
            k = T.alloc_shared((C, dk), "float32")
            v = T.alloc_shared((C, dv), "float32")
            s_sh = T.alloc_shared((dk, dv), "float32")
            a_sh = T.alloc_shared((C, C), "float32")
            a = T.alloc_fragment((C, C), "float32")
            o = T.alloc_fragment((C, dv), "float32")
            s = T.alloc_fragment((dk, dv), "float32")

            T.clear(s)
            for c in T.serial(chunks):
                T.copy(Q[h, c * C, 0], q)
                T.copy(K[h, c * C, 0], k)
                T.copy(V[h, c * C, 0], v)
                T.copy(s, s_sh)

                # contribution of the chunks before
                T.clear(o)
                T.gemm(q, s_sh, o)
                for i, j in T.Parallel(C, dv):
                    o[i, j] = o[i, j] * T.exp(LogG[h] * (i + 1))

                # within the chunk
                T.clear(a)
                T.gemm(q, k, a, transpose_B=True)
                for i, j in T.Parallel(C, C):
                    a[i, j] = T.if_then_else(i >= j, a[i, j] * T.exp(LogG[h] * (i - j)), 0.0)
                T.copy(a, a_sh)
                T.gemm(a_sh, v, o)
                T.copy(o, O[h, c * C, 0])

                # state at the end of the chunk
                for i, j in T.Parallel(C, dk):
                    k[i, j] = k[i, j] * T.exp(LogG[h] * (C - i))
                for i, j in T.Parallel(dk, dv):
                    s[i, j] = s[i, j] * T.exp(LogG[h] * C)
                T.gemm(k, v, s, transpose_A=True)
            T.copy(s, State[h, 0, 0])

    return retention


def retention_loop(q, k, v, gamma):
    state = q.new_zeros(q.shape[0], q.shape[2], v.shape[2])
    out = []
    for t in range(q.shape[1]):
        state = gamma[:, None, None] * state + k[:, t, :, None] * v[:, t, None, :]
        out.append(torch.einsum("hk,hkv->hv", q[:, t], state))
    return torch.stack(out, 1), state


def main():
    torch.manual_seed(1)
    heads, seq, dk, dv = 3, 128, 32, 32
    q, k, v = (torch.randn(heads, seq, d, device="cuda") / math.sqrt(d) for d in (dk, dk, dv))
    gamma = torch.tensor([0.6, 0.8, 0.95], device="cuda")
    kernel = tilelang.compile(make_retention(heads, seq, dk, dv), out_idx=[4, 5])
    o, state = kernel(q, k, v, gamma.log())
    o_ref, state_ref = retention_loop(q, k, v, gamma)
    for name, a, b in (("o", o, o_ref), ("state", state, state_ref)):
        rel = ((a - b).norm() / b.norm()).item()
        print(f"{name}: relative error {rel:.2e}")
        assert rel < 1e-2, name


if __name__ == "__main__":
    main()
