"""GroupNorm over (N, C, L): one block per (sample, group), statistics merged chunk by chunk."""
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3])
def group_norm(N, C, L, groups, eps=1e-5, chunk=128):
    per = C // groups
    span = per * L

    @T.prim_func
    def main(
        X: T.Tensor((N, groups, span), "float32"),
        Gamma: T.Tensor((C,), "float32"),
        Beta: T.Tensor((C,), "float32"),
        Y: T.Tensor((N, groups, span), "float32"),
    ):
        with T.Kernel(groups, N, threads=128) as (g, n):
            x = T.alloc_fragment((1, chunk), "float32")
            d = T.alloc_fragment((1, chunk), "float32")
            csum = T.alloc_fragment((1,), "float32")
            cm2 = T.alloc_fragment((1,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            m2 = T.alloc_fragment((1,), "float32")
            delta = T.alloc_fragment((1,), "float32")

            T.clear(mean)
            T.clear(m2)
            for c in T.serial(T.ceildiv(span, chunk)):
                seen = c * chunk
                cnt = T.min(chunk, span - seen)
                for i, j in T.Parallel(1, chunk):
                    x[i, j] = T.if_then_else(j < cnt, X[n, g, seen + j], 0.0)
                T.reduce_sum(x, csum, dim=1)
                for i in T.Parallel(1):
                    csum[i] = csum[i] / T.cast(cnt, "float32")
                for i, j in T.Parallel(1, chunk):
                    d[i, j] = T.if_then_else(j < cnt, (x[i, j] - csum[i]) * (x[i, j] - csum[i]), 0.0)
                T.reduce_sum(d, cm2, dim=1)
                for i in T.Parallel(1):
                    delta[i] = csum[i] - mean[i]
                    mean[i] = mean[i] + delta[i] * T.cast(cnt, "float32") / T.cast(seen + cnt, "float32")
                    m2[i] = m2[i] + cm2[i] + delta[i] * (csum[i] - mean[i])

            for i in T.Parallel(1):
                m2[i] = T.rsqrt(m2[i] / span + eps)
            for c in T.serial(T.ceildiv(span, chunk)):
                for i, j in T.Parallel(1, chunk):
                    p = c * chunk + j
                    if p < span:
                        ch = g * per + p // L
                        Y[n, g, p] = (X[n, g, p] - mean[i]) * m2[i] * Gamma[ch] + Beta[ch]

    return main


def check(N, C, L, groups):
    # every channel has a level of its own, as after a bias
    x = torch.randn(N, C, L, device="cuda") + 2.0 * torch.randn(1, C, 1, device="cuda")
    gamma = torch.rand(C, device="cuda") + 0.5
    beta = torch.randn(C, device="cuda")
    y = group_norm(N, C, L, groups)(x.view(N, groups, -1), gamma, beta).view(N, C, L)
    torch.testing.assert_close(y, F.group_norm(x, groups, gamma, beta, 1e-5), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    torch.manual_seed(0)
    check(2, 8, 60, 4)
    check(2, 12, 80, 3)
    check(1, 16, 100, 2)
    print("group norm: all shapes match")
