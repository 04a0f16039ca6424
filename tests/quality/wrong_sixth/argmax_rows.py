"""Greedy sampling: row argmax over a vocabulary; the lowest index wins a tie."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def top1(X, BM: int = 8, BN: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    idx = T.empty((M,), T.int32)
    val = T.empty((M,), T.float32)

    with T.Kernel(T.ceildiv(M, BM), threads=64) as bx:
        tile = T.alloc_fragment((BM, BN), T.float32)
        cand = T.alloc_fragment((BM, BN), T.int32)
        tmax = T.alloc_fragment((BM,), T.float32)
        targ = T.alloc_fragment((BM,), T.int32)
        best = T.alloc_fragment((BM,), T.float32)
        arg = T.alloc_fragment((BM,), T.int32)

        T.fill(best, -T.infinity(T.float32))
        T.fill(arg, 0)
        for t in T.serial(T.ceildiv(N, BN)):
            for i, j in T.Parallel(BM, BN):
                if bx * BM + i < M and t * BN + j < N:
                    tile[i, j] = X[bx * BM + i, t * BN + j]
                else:
                    tile[i, j] = -T.infinity(T.float32)
            T.reduce_max(tile, tmax, dim=1)
            for i, j in T.Parallel(BM, BN):
                cand[i, j] = T.if_then_else(tile[i, j] == tmax[i], t * BN + j, 2147483647)
            T.reduce_min(cand, targ, dim=1)
            for i in T.Parallel(BM):
                # strictly greater: an equal value in a later tile must not take over
                arg[i] = T.if_then_else(tmax[i] > best[i], targ[i], arg[i])
                best[i] = T.max(best[i], tmax[i])
        for i in T.Parallel(BM):
            if bx * BM + i < M:
                idx[bx * BM + i] = arg[i]
                val[bx * BM + i] = best[i]
    return idx, val


def first_argmax(x):
    v = x.max(dim=1).values
    cols = torch.arange(x.shape[1], device=x.device).expand_as(x)
    return torch.where(x == v[:, None], cols, x.shape[1]).min(dim=1).values.int(), v


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(21, 333, device="cuda").round() - 4.0  # many ties, all rows below zero
    x[4] = -7.0
    x[9, 332] = 5.0
    idx, val = top1(x)
    ridx, rval = first_argmax(x)
    assert torch.equal(idx, ridx), (idx - ridx).nonzero().flatten()
    torch.testing.assert_close(val, rval)
    print("argmax ok")
