import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def ssd_scan(batch, heads, seqlen, headdim, dstate, L=32):
    """Mamba-2 SSD, one block walks the chunks of one (batch, head) and keeps the state in registers."""
    nchunk = seqlen // L
    f16, f32 = "float16", "float32"

    @T.prim_func
    def main(
        X: T.Tensor((batch, seqlen, heads, headdim), f16),
        Dt: T.Tensor((batch, heads, seqlen), f32),
        DACum: T.Tensor((batch, heads, nchunk, L), f32),
        Bm: T.Tensor((batch, seqlen, dstate), f16),
        Cm: T.Tensor((batch, seqlen, dstate), f16),
        Y: T.Tensor((batch, seqlen, heads, headdim), f32),
    ):
        with T.Kernel(heads, batch, threads=64) as (h, b):
            xdt = T.alloc_shared((L, headdim), f16)
            b_s = T.alloc_shared((L, dstate), f16)
            bw = T.alloc_shared((L, dstate), f16)
            c_s = T.alloc_shared((L, dstate), f16)
            g_s = T.alloc_shared((L, L), f16)
            st_s = T.alloc_shared((dstate, headdim), f16)
            cum = T.alloc_shared((L,), f32)
            dt = T.alloc_shared((L,), f32)
            g = T.alloc_fragment((L, L), f32)
            y = T.alloc_fragment((L, headdim), f32)
            state = T.alloc_fragment((dstate, headdim), f32)

            T.clear(state)
            for c in T.serial(nchunk):
                T.copy(Dt[b, h, c * L], dt)
                T.copy(DACum[b, h, c, 0], cum)
                T.copy(Bm[b, c * L, 0], b_s)
                T.copy(Cm[b, c * L, 0], c_s)
                for i, p in T.Parallel(L, headdim):
                    xdt[i, p] = X[b, c * L + i, h, p] * dt[i]

                # what earlier chunks left behind
                T.copy(state, st_s)
                T.clear(y)
                T.gemm(c_s, st_s, y)
                for i, p in T.Parallel(L, headdim):
                    y[i, p] *= T.exp(cum[i])

                # inside the chunk
                T.clear(g)
                T.gemm(c_s, b_s, g, transpose_B=True)
                for i, j in T.Parallel(L, L):
                    g_s[i, j] = T.if_then_else(i >= j, g[i, j] * T.exp(cum[i] - cum[j]), 0.0)
                T.gemm(g_s, xdt, y)
                for i, p in T.Parallel(L, headdim):
                    Y[b, c * L + i, h, p] = y[i, p]

                # state for the next chunk
                for i, n in T.Parallel(L, dstate):
                    bw[i, n] = b_s[i, n] * T.exp(cum[L - 1] - cum[i]) * dt[i]  # BUG
                for n, p in T.Parallel(dstate, headdim):
                    state[n, p] *= T.exp(cum[L - 1])
                T.gemm(bw, xdt, state, transpose_A=True)

    return main


def ref_scan(x, dt, a, bm, cm):
    B, S, H, P = x.shape
    st = torch.zeros(B, H, bm.shape[-1], P, device=x.device)
    ys = []
    for t in range(S):
        decay = torch.exp(dt[:, :, t] * a)[..., None, None]
        st = st * decay + torch.einsum("bn,bhp,bh->bhnp", bm[:, t], x[:, t], dt[:, :, t])
        ys.append(torch.einsum("bn,bhnp->bhp", cm[:, t], st))
    return torch.stack(ys, 1)


torch.manual_seed(0)
B, H, S, P, N, L = 1, 3, 128, 32, 16, 32
x, bm, cm = (torch.randn(B, S, *r, device="cuda").half() for r in ((H, P), (N,), (N,)))
dt = torch.nn.functional.softplus(torch.randn(B, H, S, device="cuda") - 1.0)
a = -torch.rand(H, device="cuda") * 0.2
cum = (dt * a[None, :, None]).reshape(B, H, S // L, L).cumsum(-1)

y = ssd_scan(B, H, S, P, N, L)(x, dt, cum, bm, cm)
ref = ref_scan(x.float(), dt, a, bm.float(), cm.float())
rel = ((y - ref).norm() / ref.norm()).item()
assert rel < 5e-3, rel
