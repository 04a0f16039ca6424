"""Retention (RetNet) in chunkwise form. The state is updated in place, so a long sequence can come in pieces."""
import torch
import tilelang
from tilelang import language as T


@tilelang.jit(out_idx=[5])
def retention(BH, L, Dk, Dv, chunk=32, dtype="float16"):
    @T.prim_func
    def main(
        Q: T.Tensor((BH, L, Dk), dtype),
        K: T.Tensor((BH, L, Dk), dtype),
        V: T.Tensor((BH, L, Dv), dtype),
        LogG: T.Tensor((BH,), "float32"),
        State: T.Tensor((BH, Dk, Dv), "float32"),
        O: T.Tensor((BH, L, Dv), "float32"),
    ):
        with T.Kernel(BH, threads=128) as bh:
            q = T.alloc_shared((chunk, Dk), dtype)
            k = T.alloc_shared((chunk, Dk), dtype)
            v = T.alloc_shared((chunk, Dv), dtype)
            kd = T.alloc_shared((chunk, Dk), dtype)
            a = T.alloc_shared((chunk, chunk), dtype)
            h_s = T.alloc_shared((Dk, Dv), dtype)
            h = T.alloc_fragment((Dk, Dv), "float32")
            s = T.alloc_fragment((chunk, chunk), "float32")
            o = T.alloc_fragment((chunk, Dv), "float32")

            lg = LogG[bh]
            T.copy(State[bh, 0, 0], h)
            for c in T.serial(T.ceildiv(L, chunk)):
                rows = T.min(chunk, L - c * chunk)
                T.copy(Q[bh, c * chunk, 0], q)
                T.copy(K[bh, c * chunk, 0], k)
                T.copy(V[bh, c * chunk, 0], v)
                T.copy(h, h_s)

                # what earlier chunks left in the state
                T.clear(o)
                T.gemm(q, h_s, o)
                for i, d in T.Parallel(chunk, Dv):
                    o[i, d] *= T.exp(lg * T.cast(i + 1, "float32"))
                # within the chunk
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                for i, j in T.Parallel(chunk, chunk):
                    s[i, j] = T.if_then_else(j <= i, s[i, j] * T.exp(lg * T.cast(T.max(i - j, 0), "float32")), 0.0)
                T.copy(s, a)
                T.gemm(a, v, o)
                for i, d in T.Parallel(chunk, Dv):
                    if c * chunk + i < L:
                        O[bh, c * chunk + i, d] = o[i, d]

                # state after the last row of this chunk
                for j, d in T.Parallel(chunk, Dk):
                    kd[j, d] = k[j, d] * T.exp(lg * T.cast(chunk - 1 - j, "float32"))
                for e, d in T.Parallel(Dk, Dv):
                    h[e, d] *= T.exp(lg * T.cast(rows, "float32"))
                T.gemm(kd, v, h, transpose_A=True)
            T.copy(h, State[bh, 0, 0])

    return main


def recurrent(q, k, v, log_g, state):
    out = []
    g = log_g.exp()[:, None, None]
    for t in range(q.shape[1]):
        state = g * state + k[:, t, :, None].float() * v[:, t, None, :].float()
        out.append(torch.einsum("bk,bkv->bv", q[:, t].float(), state))
    return torch.stack(out, dim=1), state


def run(pieces, BH=4, Dk=32, Dv=64):
    gen = torch.Generator().manual_seed(sum(pieces))
    L = sum(pieces)
    q, k = ((torch.randn(BH, L, Dk, generator=gen) / Dk**0.5).half().to("cuda") for _ in range(2))
    v = torch.randn(BH, L, Dv, generator=gen).half().to("cuda")
    log_g = torch.log(1 - 2.0 ** (-3 - torch.arange(BH, dtype=torch.float32))).to("cuda")
    state = torch.zeros(BH, Dk, Dv, device="cuda")
    want, want_state = recurrent(q, k, v, log_g, state.clone())

    outs, t0 = [], 0
    for n in pieces:
        part = [t[:, t0 : t0 + n].contiguous() for t in (q, k, v)]
        outs.append(retention(BH, n, Dk, Dv)(*part, log_g, state))
        t0 += n
    torch.testing.assert_close(torch.cat(outs, dim=1), want, rtol=1e-2, atol=1e-2, msg=lambda m: f"{pieces} output: {m}")
    torch.testing.assert_close(state, want_state, rtol=1e-2, atol=1e-2, msg=lambda m: f"{pieces} state: {m}")
    print(pieces, "ok")


if __name__ == "__main__":
    for pieces in ([64], [32, 96], [80], [40, 24]):
        run(pieces)
