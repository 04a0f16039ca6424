import sys

import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[1, 2])
def ln_stats(M, N, eps, bm=4):
    @T.prim_func
    def stats(X: T.Tensor((M, N), "float32"), Mean: T.Tensor((M,), "float32"), Rstd: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, bm), threads=128) as bx:
            x = T.alloc_fragment((bm, N), "float32")
            s = T.alloc_fragment((bm,), "float32")
            v = T.alloc_fragment((bm,), "float32")
            T.copy(X[bx * bm, 0], x)
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(bm, N):
                x[i, j] = (x[i, j] - s[i] / N) * (x[i, j] - s[i] / N)
            T.reduce_sum(x, v, dim=1)
            for i in T.Parallel(bm):
                if bx * bm + i < M:
                    Mean[bx * bm + i] = s[i] / N
                    Rstd[bx * bm + i] = T.rsqrt(v[i] / N + eps)

    return stats


@tilelang.jit(out_idx=[5, 6, 7])
def ln_bwd(M, N, bm=4):
    blocks = (M + bm - 1) // bm

    @T.prim_func
    def bwd(
        X: T.Tensor((M, N), "float32"),
        DY: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        Mean: T.Tensor((M,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
        DX: T.Tensor((M, N), "float32"),
        DW_part: T.Tensor((blocks, N), "float32"),
        DB_part: T.Tensor((blocks, N), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as bx:
            xhat = T.alloc_fragment((bm, N), "float32")
            dy = T.alloc_fragment((bm, N), "float32")
            wdy = T.alloc_fragment((bm, N), "float32")
            tmp = T.alloc_fragment((bm, N), "float32")
            c1 = T.alloc_fragment((bm,), "float32")
            c2 = T.alloc_fragment((bm,), "float32")
            dw = T.alloc_fragment((N,), "float32")
            db = T.alloc_fragment((N,), "float32")

            for i, j in T.Parallel(bm, N):
                if bx * bm + i < M:
                    dy[i, j] = DY[bx * bm + i, j]
                    xhat[i, j] = (X[bx * bm + i, j] - Mean[bx * bm + i]) * Rstd[bx * bm + i]
                else:
                    dy[i, j] = 0.0
                    xhat[i, j] = 0.0
            for i, j in T.Parallel(bm, N):
                wdy[i, j] = dy[i, j] * W[j]
                tmp[i, j] = wdy[i, j] * xhat[i, j]
            T.reduce_sum(dy, c1, dim=1)
            T.reduce_sum(tmp, c2, dim=1)
            for i, j in T.Parallel(bm, N):
                if bx * bm + i < M:
                    DX[bx * bm + i, j] = Rstd[bx * bm + i] * (wdy[i, j] - (c1[i] + xhat[i, j] * c2[i]) / N)

            # parameter gradients: one partial row per block, added up by the second kernel
            T.reduce_sum(dy, db, dim=0)
            T.copy(db, DB_part[bx, 0])
            for i, j in T.Parallel(bm, N):
                tmp[i, j] = dy[i, j] * xhat[i, j]
            T.reduce_sum(tmp, dw, dim=0)
            T.copy(dw, DW_part[bx, 0])

    return bwd


@tilelang.jit(out_idx=[1])
def column_sum(R, N, bn=64):
    @T.prim_func
    def colsum(P: T.Tensor((R, N), "float32"), S: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, bn), threads=bn) as bx:
            acc = T.alloc_fragment((bn,), "float32")
            T.clear(acc)
            for r in T.serial(R):
                for j in T.Parallel(bn):
                    acc[j] += P[r, bx * bn + j]
            T.copy(acc, S[bx * bn])

    return colsum


torch.manual_seed(3)
failed = False
for M, N in [(16, 128), (30, 256)]:
    x = (torch.randn(M, N, device="cuda") * 2 + 0.5).requires_grad_()
    w = torch.empty(N, device="cuda").uniform_(0.2, 2.0).requires_grad_()
    b = torch.zeros(N, device="cuda").requires_grad_()
    dy = torch.randn(M, N, device="cuda") + 0.3
    F.layer_norm(x, (N,), w, b, eps=1e-5).backward(dy)

    mean, rstd = ln_stats(M, N, 1e-5)(x.detach())
    dx, dw_part, db_part = ln_bwd(M, N)(x.detach(), dy, w.detach(), mean, rstd)
    reduce = column_sum(dw_part.shape[0], N)
    for name, got, want in [("dx", dx, x.grad), ("dw", reduce(dw_part), w.grad), ("db", reduce(db_part), b.grad)]:
        ok = torch.allclose(got, want, rtol=1e-4, atol=1e-4)
        print(f"{M}x{N} {name}: {'ok' if ok else 'MISMATCH'} {(got - want).abs().max().item():.2e}")
        failed |= not ok
sys.exit(1 if failed else 0)
