import torch
import tilelang
import tilelang.language as T

# Chunked linear attention with a scalar log-decay per step and head:
#   S_t = exp(g_t) S_{t-1} + k_t v_t^T,   o_t = q_t S_t


@tilelang.jit(out_idx=[4, 5])
def decay_attn(BH, L, DK, DV, C=32):
    @T.prim_func
    def main(
        Q: T.Tensor((BH, L, DK), "float16"),
        K: T.Tensor((BH, L, DK), "float16"),
        V: T.Tensor((BH, L, DV), "float16"),
        G: T.Tensor((BH, L), "float32"),
        O: T.Tensor((BH, L, DV), "float32"),
        S_out: T.Tensor((BH, DK, DV), "float32"),
    ):
        with T.Kernel(BH, threads=128) as bh:
            q_s = T.alloc_shared((C, DK), "float16")
            k_s = T.alloc_shared((C, DK), "float16")
            kd_s = T.alloc_shared((C, DK), "float16")
            v_s = T.alloc_shared((C, DV), "float16")
            a_s = T.alloc_shared((C, C), "float16")
            st_s = T.alloc_shared((DK, DV), "float16")
            gc = T.alloc_shared((C,), "float32")
            a = T.alloc_fragment((C, C), "float32")
            o = T.alloc_fragment((C, DV), "float32")
            state = T.alloc_fragment((DK, DV), "float32")

            T.clear(state)
            for c in T.serial(L // C):
                T.copy(Q[bh, c * C, 0], q_s)
                T.copy(K[bh, c * C, 0], k_s)
                T.copy(V[bh, c * C, 0], v_s)
                for i in T.Parallel(C):
                    gc[i] = 0.0
                    for j in T.serial(C):
                        if j <= i:
                            gc[i] += G[bh, c * C + j]

                # what earlier chunks contribute
                T.copy(state, st_s)
                T.clear(o)
                T.gemm(q_s, st_s, o)
                for i, j in T.Parallel(C, DV):
                    o[i, j] *= T.exp(gc[i])

                # inside the chunk
                T.clear(a)
                T.gemm(q_s, k_s, a, transpose_B=True)
                for i, j in T.Parallel(C, C):
                    a[i, j] = T.if_then_else(j <= i, a[i, j] * T.exp(gc[i] - gc[j]), 0.0)
                T.copy(a, a_s)
                T.gemm(a_s, v_s, o)
                T.copy(o, O[bh, c * C, 0])

                # carry the state on to the end of the chunk
                for i, j in T.Parallel(C, DK):
                    kd_s[i, j] = T.cast(T.cast(k_s[i, j], "float32") * T.exp(gc[i]), "float16")
                for i, j in T.Parallel(DK, DV):
                    state[i, j] *= T.exp(gc[C - 1])
                T.gemm(kd_s, v_s, state, transpose_A=True)

            T.copy(state, S_out[bh, 0, 0])

    return main


def recurrent(q, k, v, g):
    q, k, v = q.float(), k.float(), v.float()
    s = torch.zeros(q.shape[0], q.shape[2], v.shape[2], device=q.device)
    outs = []
    for t in range(q.shape[1]):
        s = s * g[:, t].exp()[:, None, None] + k[:, t, :, None] * v[:, t, None, :]
        outs.append(torch.einsum("bk,bkv->bv", q[:, t], s))
    return torch.stack(outs, dim=1), s


torch.manual_seed(21)
BH, L, DK, DV = 4, 128, 32, 64
q = (torch.randn(BH, L, DK, device="cuda") / DK**0.5).half()
k = torch.randn(BH, L, DK, device="cuda").half()
v = torch.randn(BH, L, DV, device="cuda").half()
slope = torch.tensor([0.0, 0.01, 0.05, 0.15], device="cuda")
g = -slope[:, None] * torch.rand(BH, L, device="cuda")

o, s = decay_attn(BH, L, DK, DV)(q, k, v, g)
o_ref, s_ref = recurrent(q, k, v, g)
for name, got, want in [("o", o, o_ref), ("state", s, s_ref)]:
    for h in range(BH):
        err = ((got[h] - want[h]).norm() / want[h].norm()).item()
        print(f"{name} head {h}: rel err {err:.2e}")
        assert err < 1e-2, f"{name}: head {h} is off"
