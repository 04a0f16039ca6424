import sys
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit
def batchnorm_fwd(X, Gamma, Beta, RunMean, RunVar, eps: float, momentum: float, BL: int = 64):
    N, C, L = T.const("N, C, L")
    X: T.Tensor[[N, C, L], T.float32]
    Gamma: T.Tensor[[C], T.float32]
    Beta: T.Tensor[[C], T.float32]
    RunMean: T.Tensor[[C], T.float32]
    RunVar: T.Tensor[[C], T.float32]
    Y = T.empty((N, C, L), T.float32)

    with T.Kernel(C, threads=64) as c:
        xs = T.alloc_fragment((1, BL), T.float32)
        dev = T.alloc_fragment((1, BL), T.float32)
        mb = T.alloc_fragment((1,), T.float32)
        sq = T.alloc_fragment((1,), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        m2 = T.alloc_fragment((1,), T.float32)
        seen = T.alloc_fragment((1,), T.float32)
        T.clear(mean)
        T.clear(m2)
        T.clear(seen)
        for n in T.serial(N):
            for l in T.serial(T.ceildiv(L, BL)):
                nb = T.cast(T.min(BL, L - l * BL), T.float32)
                for i, j in T.Parallel(1, BL):
                    xs[i, j] = T.if_then_else(l * BL + j < L, X[n, c, l * BL + j], 0.0)
                T.reduce_sum(xs, mb, dim=1)
                for i in T.Parallel(1):
                    mb[i] = mb[i] / nb
                for i, j in T.Parallel(1, BL):
                    dev[i, j] = T.if_then_else(l * BL + j < L, (xs[i, j] - mb[i]) * (xs[i, j] - mb[i]), 0.0)
                T.reduce_sum(dev, sq, dim=1)
                for i in T.Parallel(1):
                    mean[i] += (mb[i] - mean[i]) * nb / (seen[i] + nb)  # BUG
                    m2[i] += sq[i] + (mb[i] - mean[i]) * (mb[i] - mean[i]) * seen[i] * nb / (seen[i] + nb)  # BUG
                    seen[i] += nb
        for i in T.Parallel(1):
            RunMean[c] = (1.0 - momentum) * RunMean[c] + momentum * mean[i]
            RunVar[c] = (1.0 - momentum) * RunVar[c] + momentum * m2[i] / (seen[i] - 1.0)
        for n in T.serial(N):
            for l in T.serial(T.ceildiv(L, BL)):
                for i, j in T.Parallel(1, BL):
                    if l * BL + j < L:
                        Y[n, c, l * BL + j] = (X[n, c, l * BL + j] - mean[i]) * T.rsqrt(m2[i] / seen[i] + eps) * Gamma[c] + Beta[c]
    return Y


def run():
    torch.manual_seed(5)
    N, C, H, W = 4, 6, 9, 11
    eps, momentum = 1e-5, 0.1
    x = torch.randn(N, C, H, W, device="cuda") + 1.5 * torch.randn(N, C, 1, 1, device="cuda")
    gamma = torch.rand(C, device="cuda") + 0.5
    beta = torch.randn(C, device="cuda")
    rm, rv = torch.zeros(C, device="cuda"), torch.ones(C, device="cuda")
    rm_ref, rv_ref = rm.clone(), rv.clone()
    y = batchnorm_fwd(x.view(N, C, H * W), gamma, beta, rm, rv, eps, momentum).view_as(x)
    y_ref = F.batch_norm(x, rm_ref, rv_ref, gamma, beta, training=True, momentum=momentum, eps=eps)
    ok = True
    for name, a, b in [("running_mean", rm, rm_ref), ("running_var", rv, rv_ref), ("output", y, y_ref)]:
        d = (a - b).abs().max().item()
        good = d < 1e-3
        ok = ok and good
        print(f"{name:13s} max abs diff {d:.3e} {'ok' if good else 'FAIL'}")
    return ok


if __name__ == "__main__":
    if not run():
        print("batchnorm check failed")
        sys.exit(1)
    print("batchnorm check passed")
