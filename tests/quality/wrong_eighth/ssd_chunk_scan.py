import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[6])
def ssd_chunk_scan(batch, seqlen, nheads, headdim, dstate, chunk=16):
    f32 = "float32"

    @T.prim_func
    def main(
        X: T.Tensor((batch, seqlen, nheads, headdim), f32),
        Dt: T.Tensor((batch, seqlen, nheads), f32),
        A: T.Tensor((nheads,), f32),
        Bm: T.Tensor((batch, seqlen, dstate), f32),
        Cm: T.Tensor((batch, seqlen, dstate), f32),
        Dskip: T.Tensor((nheads,), f32),
        Y: T.Tensor((batch, seqlen, nheads, headdim), f32),
    ):
        with T.Kernel(nheads, batch, threads=128) as (h, b):
            x = T.alloc_shared((chunk, headdim), f32)
            dt = T.alloc_shared((chunk,), f32)
            da = T.alloc_shared((chunk,), f32)
            cum = T.alloc_shared((chunk,), f32)
            bs = T.alloc_shared((chunk, dstate), f32)
            cs = T.alloc_shared((chunk, dstate), f32)
            cb = T.alloc_shared((chunk, chunk), f32)
            state = T.alloc_shared((dstate, headdim), f32)
            run = T.alloc_fragment((chunk,), f32)
            y = T.alloc_fragment((chunk, headdim), f32)
            T.clear(state)
            for c in T.serial(T.ceildiv(seqlen, chunk)):
                t0 = c * chunk
                for i, p in T.Parallel(chunk, headdim):
                    x[i, p] = T.if_then_else(t0 + i < seqlen, X[b, t0 + i, h, p], 0.0)
                for i in T.Parallel(chunk):
                    dt[i] = T.if_then_else(t0 + i < seqlen, Dt[b, t0 + i, h], 0.0)
                T.copy(Bm[b, t0, 0], bs)
                T.copy(Cm[b, t0, 0], cs)
                for i in T.Parallel(chunk):
                    da[i] = dt[i] * A[h]
                T.clear(run)
                for j in T.serial(chunk):
                    for i in T.Parallel(chunk):
                        run[i] += T.if_then_else(j <= i, da[j], 0.0)
                T.copy(run, cum)
                for i, j in T.Parallel(chunk, chunk):
                    cb[i, j] = 0.0
                    if j <= i:
                        for n in T.serial(dstate):
                            cb[i, j] += cs[i, n] * bs[j, n]
                        cb[i, j] *= T.exp(cum[i] - cum[j]) * dt[j]
                T.clear(y)
                for n in T.serial(dstate):
                    for i, p in T.Parallel(chunk, headdim):
                        y[i, p] += cs[i, n] * state[n, p]
                for i, p in T.Parallel(chunk, headdim):
                    y[i, p] *= T.exp(cum[i] - da[i])  # BUG
                for j in T.serial(chunk):
                    for i, p in T.Parallel(chunk, headdim):
                        y[i, p] += cb[i, j] * x[j, p]
                for i, p in T.Parallel(chunk, headdim):
                    if t0 + i < seqlen:
                        Y[b, t0 + i, h, p] = y[i, p] + Dskip[h] * x[i, p]
                for n, p in T.Parallel(dstate, headdim):
                    state[n, p] *= T.exp(cum[chunk - 1])
                    for j in T.serial(chunk):
                        state[n, p] += T.exp(cum[chunk - 1] - cum[j]) * dt[j] * bs[j, n] * x[j, p]

    return main


def ref_scan(x, dt, A, B, C, D):
    batch, L, H, P = x.shape
    h = torch.zeros(batch, H, B.shape[-1], P, device=x.device)
    ys = []
    for t in range(L):
        decay = torch.exp(dt[:, t] * A)[:, :, None, None]
        inp = torch.einsum("bn,bhp->bhnp", B[:, t], x[:, t] * dt[:, t, :, None])
        h = decay * h + inp
        ys.append(torch.einsum("bn,bhnp->bhp", C[:, t], h) + D[:, None] * x[:, t])
    return torch.stack(ys, 1)


def check(seqlen, batch=2, nheads=2, headdim=16, dstate=16):
    x = torch.randn(batch, seqlen, nheads, headdim, device="cuda")
    dt = torch.nn.functional.softplus(torch.randn(batch, seqlen, nheads, device="cuda") - 1.0)
    A = -torch.rand(nheads, device="cuda") - 0.3
    B = torch.randn(batch, seqlen, dstate, device="cuda")
    C = torch.randn(batch, seqlen, dstate, device="cuda")
    D = torch.ones(nheads, device="cuda")
    y = ssd_chunk_scan(batch, seqlen, nheads, headdim, dstate)(x, dt, A, B, C, D)
    torch.testing.assert_close(y, ref_scan(x, dt, A, B, C, D), rtol=1e-3, atol=1e-3)
    print("seqlen", seqlen, "matches")


if __name__ == "__main__":
    torch.manual_seed(0)
    for seqlen in (16, 12, 60):
        check(seqlen)
