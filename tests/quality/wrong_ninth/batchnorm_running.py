"""BatchNorm1d training step, in place on the activations, running statistics carried from launch to launch."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def batchnorm_(X, gamma, beta, run_mean, run_var, eps: float = 1e-5, momentum: float = 0.1, BC: int = 8, BR: int = 32):
    N, C = T.const("N, C")
    X: T.Tensor[[N, C], T.float32]
    gamma: T.Tensor[[C], T.float32]
    beta: T.Tensor[[C], T.float32]
    run_mean: T.Tensor[[C], T.float32]
    run_var: T.Tensor[[C], T.float32]

    with T.Kernel(T.ceildiv(C, BC), threads=64) as bc:
        tile = T.alloc_fragment((BR, BC), T.float32)
        mean = T.alloc_fragment((BC,), T.float32)
        m2 = T.alloc_fragment((BC,), T.float32)
        part = T.alloc_fragment((BC,), T.float32)
        shift = T.alloc_fragment((BC,), T.float32)
        old_mean = T.alloc_fragment((BC,), T.float32)
        old_var = T.alloc_fragment((BC,), T.float32)

        # sums are taken about the first row, so a large common offset does no harm
        for j in T.Parallel(BC):
            shift[j] = T.if_then_else(bc * BC + j < C, X[0, bc * BC + j], 0.0)
            old_mean[j] = T.if_then_else(bc * BC + j < C, run_mean[bc * BC + j], 0.0)
            old_var[j] = T.if_then_else(bc * BC + j < C, run_var[bc * BC + j], 0.0)
        T.clear(mean)
        T.clear(m2)
        for t in T.serial(T.ceildiv(N, BR)):
            for i, j in T.Parallel(BR, BC):
                ok = t * BR + i < N and bc * BC + j < C
                tile[i, j] = T.if_then_else(ok, X[t * BR + i, bc * BC + j] - shift[j], 0.0)
            T.reduce_sum(tile, part, dim=0)
            for j in T.Parallel(BC):
                mean[j] += part[j]
            for i, j in T.Parallel(BR, BC):
                tile[i, j] = tile[i, j] * tile[i, j]
            T.reduce_sum(tile, part, dim=0)
            for j in T.Parallel(BC):
                m2[j] += part[j]

        T.sync_threads()
        for j in T.Parallel(BC):
            m2[j] = m2[j] - mean[j] * mean[j] / N
            mean[j] = shift[j] + mean[j] / N
            if bc * BC + j < C:
                run_mean[bc * BC + j] = old_mean[j] + momentum * (mean[j] - old_mean[j])
                run_var[bc * BC + j] = old_var[j] + momentum * (m2[j] / (N - 1) - old_var[j])

        for t in T.serial(T.ceildiv(N, BR)):
            for i, j in T.Parallel(BR, BC):
                if t * BR + i < N and bc * BC + j < C:
                    X[t * BR + i, bc * BC + j] = (X[t * BR + i, bc * BC + j] - mean[j]) * T.rsqrt(
                        m2[j] / N + eps
                    ) * gamma[bc * BC + j] + beta[bc * BC + j]


torch.manual_seed(10)
C = 20
bn = torch.nn.BatchNorm1d(C, device="cuda").train()
torch.nn.init.uniform_(bn.weight, 0.5, 1.5)
torch.nn.init.normal_(bn.bias)
run_mean, run_var = bn.running_mean.clone(), bn.running_var.clone()

worst = 0.0
for n in (64, 50, 7):
    x = torch.randn(n, C, device="cuda") * torch.linspace(0.5, 3, C, device="cuda") + 30
    with torch.no_grad():
        want = bn(x)
    batchnorm_(x, bn.weight.data, bn.bias.data, run_mean, run_var)
    diffs = [
        (x - want).abs().max().item(),
        ((run_mean - bn.running_mean).abs() / bn.running_mean.abs()).max().item(),
        ((run_var - bn.running_var).abs() / bn.running_var).max().item(),
    ]
    print(f"N={n}:", " ".join(f"{d:.1e}" for d in diffs))
    worst = max(worst, *diffs)
assert worst < 1e-3, worst
