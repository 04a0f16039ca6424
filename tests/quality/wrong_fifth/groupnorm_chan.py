import argparse

import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


def group_norm_kernel(rows, channels, groups, hw, eps, BR=4, BT=128, threads=128):
    """One row is one (sample, group): channels // groups planes of hw pixels. Streaming statistics."""
    cpg = channels // groups
    tot = cpg * hw
    nt = (tot + BT - 1) // BT
    dtype = "float32"

    @T.prim_func
    def gn(
        X: T.Tensor((rows, tot), dtype),
        Gamma: T.Tensor((channels,), dtype),
        Beta: T.Tensor((channels,), dtype),
        Y: T.Tensor((rows, tot), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, BR), threads=threads) as bx:
            xs = T.alloc_fragment((BR, BT), dtype)
            sq = T.alloc_fragment((BR, BT), dtype)
            tsum = T.alloc_fragment((BR,), dtype)
            tm2 = T.alloc_fragment((BR,), dtype)
            tmean = T.alloc_fragment((BR,), dtype)
            mean = T.alloc_fragment((BR,), dtype)
            m2 = T.alloc_fragment((BR,), dtype)

            T.clear(mean)
            T.clear(m2)
            for t in T.serial(nt):
                seen = T.cast(t * BT, dtype)
                nb = T.cast(T.min(BT, tot - t * BT), dtype)
                for i, j in T.Parallel(BR, BT):
                    xs[i, j] = T.if_then_else(t * BT + j < tot, X[bx * BR + i, t * BT + j], 0.0)
                T.reduce_sum(xs, tsum, dim=1)
                for i in T.Parallel(BR):
                    tmean[i] = tsum[i] / nb
                for i, j in T.Parallel(BR, BT):
                    sq[i, j] = T.if_then_else(t * BT + j < tot, (xs[i, j] - tmean[i]) * (xs[i, j] - tmean[i]), 0.0)
                T.reduce_sum(sq, tm2, dim=1)
                for i in T.Parallel(BR):
                    mean[i] += (tmean[i] - mean[i]) * nb / (seen + nb)  # BUG
                    m2[i] += tm2[i] + (tmean[i] - mean[i]) * (tmean[i] - mean[i]) * seen * nb / (seen + nb)  # BUG

            for t in T.serial(nt):
                for i, j in T.Parallel(BR, BT):
                    r = bx * BR + i
                    e = t * BT + j
                    if e < tot:
                        c = (r % groups) * cpg + e // hw
                        Y[r, e] = (X[r, e] - mean[i]) * T.rsqrt(m2[i] / tot + eps) * Gamma[c] + Beta[c]

    return gn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=2)
    parser.add_argument("--c", type=int, default=24)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--size", type=int, default=11)
    args = parser.parse_args()
    n, c, g, hw = args.n, args.c, args.groups, args.size**2
    torch.manual_seed(3)
    # activations with a per channel offset, as after a convolution with bias
    x = torch.randn(n, c, hw, device="cuda") + 2 * torch.randn(1, c, 1, device="cuda")
    gamma = torch.rand(c, device="cuda") + 0.5
    beta = torch.randn(c, device="cuda")

    program = group_norm_kernel(n * g, c, g, hw, 1e-5)
    kernel = tilelang.compile(program, out_idx=[3])
    y = kernel(x.reshape(n * g, -1), gamma, beta).reshape(n, c, hw)

    ref = F.group_norm(x, g, gamma, beta, eps=1e-5)
    torch.testing.assert_close(y, ref, rtol=1e-3, atol=1e-3)
    print("group norm matches torch")


if __name__ == "__main__":
    main()
