"""GroupNorm over NHWC with one pass over the pixels: tile statistics are merged into running ones."""
import sys

import numpy as np
import torch
import tilelang
import tilelang.language as T

EPS = 1e-5


def build(N, P, C, G, tile_p=32):
    cg = C // G
    full, rest = P // tile_p, P % tile_p

    @T.macro
    def tile_stats(X, n, p0, c0, count, xs, rsum, out_mean, out_ss):
        for i, j in T.Parallel(tile_p, cg):
            xs[i, j] = T.if_then_else(i < count, X[n, T.min(p0 + i, P - 1), c0 + j], 0.0)
        T.reduce_sum(xs, rsum, dim=1)
        T.reduce_sum(rsum, out_mean, dim=0)
        out_mean[0] = out_mean[0] / (count * cg)
        for i, j in T.Parallel(tile_p, cg):
            xs[i, j] = T.if_then_else(i < count, (xs[i, j] - out_mean[0]) * (xs[i, j] - out_mean[0]), 0.0)
        T.reduce_sum(xs, rsum, dim=1)
        T.reduce_sum(rsum, out_ss, dim=0)

    @T.macro
    def merge(mean, m2, seen, t_mean, t_ss, count, delta):
        # mean and M2 after `count * cg` further values, cf. Welford
        delta[0] = t_mean[0] - mean[0]
        mean[0] = mean[0] + delta[0] * (count * cg) / (seen + count * cg)
        m2[0] = m2[0] + t_ss[0] + delta[0] * (t_mean[0] - mean[0])

    @T.prim_func
    def group_norm(
        X: T.Tensor((N, P, C), "float32"),
        Gamma: T.Tensor((C,), "float32"),
        Beta: T.Tensor((C,), "float32"),
        Y: T.Tensor((N, P, C), "float32"),
        Stats: T.Tensor((N, G, 2), "float32"),
    ):
        with T.Kernel(G, N, threads=128) as (g, n):
            xs = T.alloc_fragment((tile_p, cg), "float32")
            rsum = T.alloc_fragment((tile_p,), "float32")
            t_mean = T.alloc_fragment((1,), "float32")
            t_ss = T.alloc_fragment((1,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            m2 = T.alloc_fragment((1,), "float32")
            delta = T.alloc_fragment((1,), "float32")

            T.clear(mean)
            T.clear(m2)
            for t in T.serial(full):
                tile_stats(X, n, t * tile_p, g * cg, tile_p, xs, rsum, t_mean, t_ss)
                merge(mean, m2, t * tile_p * cg, t_mean, t_ss, tile_p, delta)
            if rest > 0:
                tile_stats(X, n, full * tile_p, g * cg, rest, xs, rsum, t_mean, t_ss)
                merge(mean, m2, full * tile_p * cg, t_mean, t_ss, rest, delta)

            for t in T.serial(T.ceildiv(P, tile_p)):
                for i, j in T.Parallel(tile_p, cg):
                    if t * tile_p + i < P:
                        Y[n, t * tile_p + i, g * cg + j] = (X[n, t * tile_p + i, g * cg + j] - mean[0]) * T.rsqrt(
                            m2[0] / (P * cg) + EPS
                        ) * Gamma[g * cg + j] + Beta[g * cg + j]
            Stats[n, g, 0] = mean[0]
            Stats[n, g, 1] = m2[0] / (P * cg)

    return group_norm


torch.manual_seed(11)
failed = 0
for N, H, W, C, G in [(2, 8, 4, 32, 4), (2, 12, 12, 32, 4), (1, 10, 9, 24, 3)]:
    # images with a brightness gradient from top to bottom
    ramp = torch.linspace(-1.5, 1.5, H).view(1, H, 1, 1)
    x = (torch.randn(N, H, W, C) + ramp).to("cuda")
    gamma = torch.rand(C).to("cuda") + 0.5
    beta = torch.randn(C).to("cuda")

    kernel = tilelang.compile(build(N, H * W, C, G), out_idx=[3, 4])
    y, stats = kernel(x.reshape(N, H * W, C).contiguous(), gamma, beta)

    want = torch.nn.functional.group_norm(x.permute(0, 3, 1, 2), G, gamma, beta, EPS)
    want = want.permute(0, 2, 3, 1).reshape(N, H * W, C).cpu().numpy()
    per_group = x.reshape(N, H * W, G, C // G)
    d_mean = (stats[..., 0] - per_group.mean(dim=(1, 3))).abs().max().item()
    d_out = np.abs(y.cpu().numpy() - want).max()
    print(f"N={N} {H}x{W} C={C} G={G}: mean off by {d_mean:.1e}, output off by {d_out:.1e}")
    if d_mean > 1e-4 or d_out > 1e-3:
        failed += 1

sys.exit(1 if failed else 0)
