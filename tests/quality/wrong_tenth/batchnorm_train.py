"""BatchNorm2d in training mode: one kernel for statistics (running ones in place), one to normalize."""
import torch
import torch.nn as nn
import tilelang
import tilelang.language as T


@tilelang.jit
def bn_stats(B, C, HW, momentum, block=64):
    count = B * HW

    @T.prim_func
    def stats(
        X: T.Tensor((B, C, HW), "float32"),
        Mean: T.Tensor((C,), "float32"),
        Var: T.Tensor((C,), "float32"),
        RunMean: T.Tensor((C,), "float32"),
        RunVar: T.Tensor((C,), "float32"),
    ):
        with T.Kernel(C, threads=64) as c:
            vals = T.alloc_fragment((1, block), "float32")
            part = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            mu = T.alloc_fragment((1,), "float32")

            # two passes: the mean, then the centred sum of squares
            T.clear(total)
            for b in T.serial(B):
                for o in T.serial(T.ceildiv(HW, block)):
                    for _, j in T.Parallel(1, block):
                        vals[0, j] = T.if_then_else(o * block + j < HW, X[b, c, T.min(o * block + j, HW - 1)], 0.0)
                    T.reduce_sum(vals, part, dim=1)
                    total[0] += part[0]
            mu[0] = total[0] / count

            T.clear(total)
            for b in T.serial(B):
                for o in T.serial(T.ceildiv(HW, block)):
                    for _, j in T.Parallel(1, block):
                        d = X[b, c, T.min(o * block + j, HW - 1)] - mu[0]
                        vals[0, j] = T.if_then_else(o * block + j < HW, d * d, 0.0)
                    T.reduce_sum(vals, part, dim=1)
                    total[0] += part[0]

            for k in T.Parallel(1):
                Mean[c + k] = mu[k]
                Var[c + k] = total[k] / count
                RunMean[c + k] = (1.0 - momentum) * RunMean[c + k] + momentum * mu[k]
                RunVar[c + k] = (1.0 - momentum) * RunVar[c + k] + momentum * (total[k] / count)

    return stats


@tilelang.jit
def bn_apply(B, C, HW, eps, block=128):
    @T.prim_func
    def apply(
        X: T.Tensor((B, C, HW), "float32"),
        Mean: T.Tensor((C,), "float32"),
        Var: T.Tensor((C,), "float32"),
        Gamma: T.Tensor((C,), "float32"),
        Beta: T.Tensor((C,), "float32"),
        Y: T.Tensor((B, C, HW), "float32"),
    ):
        with T.Kernel(T.ceildiv(HW, block), C, B, threads=128) as (o, c, b):
            for j in T.Parallel(block):
                p = o * block + j
                if p < HW:
                    Y[b, c, p] = (X[b, c, p] - Mean[c]) * T.rsqrt(Var[c] + eps) * Gamma[c] + Beta[c]

    return apply


def main():
    torch.manual_seed(8)
    B, C, H, W = 3, 6, 5, 7
    bn = nn.BatchNorm2d(C, momentum=0.2).to("cuda").train()
    nn.init.uniform_(bn.weight, 0.5, 1.5)
    nn.init.normal_(bn.bias)
    gamma, beta = bn.weight.detach(), bn.bias.detach()
    rmean, rvar = torch.zeros(C, device="cuda"), torch.ones(C, device="cuda")
    mean, var = torch.empty(C, device="cuda"), torch.empty(C, device="cuda")

    stats, apply = bn_stats(B, C, H * W, bn.momentum), bn_apply(B, C, H * W, bn.eps)
    for step in range(4):
        x = torch.randn(B, C, H, W, device="cuda") * (2 + step) + 1
        y = torch.empty_like(x)
        stats(x.view(B, C, H * W), mean, var, rmean, rvar)
        apply(x.view(B, C, H * W), mean, var, gamma, beta, y.view(B, C, H * W))
        torch.testing.assert_close(y, bn(x).detach(), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(rmean, bn.running_mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(rvar, bn.running_var, rtol=1e-4, atol=1e-5)
    print("batchnorm ok")


if __name__ == "__main__":
    main()
