import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def welford_stats(X, block_M: int = 16, block_N: int = 64):
    """Row mean and biased variance; chunks are merged with Chan's formula."""
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Mean = T.empty((M,), T.float32)
    Var = T.empty((M,), T.float32)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        x = T.alloc_fragment((block_M, block_N), T.float32)
        mean = T.alloc_fragment((block_M,), T.float32)
        m2 = T.alloc_fragment((block_M,), T.float32)
        c_mean = T.alloc_fragment((block_M,), T.float32)
        c_m2 = T.alloc_fragment((block_M,), T.float32)

        T.clear(mean)
        T.clear(m2)
        for k in T.serial(T.ceildiv(N, block_N)):
            seen = k * block_N
            cnt = T.min(block_N, N - seen)
            T.copy(X[bx * block_M, seen], x)
            T.reduce_sum(x, c_mean, dim=1)
            for i in T.Parallel(block_M):
                c_mean[i] = c_mean[i] / cnt
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.if_then_else(j < cnt, (x[i, j] - c_mean[i]) * (x[i, j] - c_mean[i]), 0.0)
            T.reduce_sum(x, c_m2, dim=1)
            for i in T.Parallel(block_M):
                # m2 needs the old mean, so it goes first
                m2[i] = m2[i] + c_m2[i] + (c_mean[i] - mean[i]) * (c_mean[i] - mean[i]) * (
                    T.cast(seen, T.float32) * T.cast(cnt, T.float32) / T.cast(seen + cnt, T.float32)
                )
            for i in T.Parallel(block_M):
                mean[i] = mean[i] + (c_mean[i] - mean[i]) * (T.cast(cnt, T.float32) / T.cast(seen + cnt, T.float32))

        for i in T.Parallel(block_M):
            if bx * block_M + i < M:
                Mean[bx * block_M + i] = mean[i]
                Var[bx * block_M + i] = m2[i] / N
    return Mean, Var


if __name__ == "__main__":
    torch.manual_seed(0)
    # large offset: the E[x^2] - E[x]^2 form would lose everything here
    x = torch.randn(50, 333, device="cuda") + 1000.0
    mean, var = welford_stats(x)
    xd = x.double()
    torch.testing.assert_close(mean, xd.mean(1).float(), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(var, xd.var(1, unbiased=False).float(), rtol=2e-3, atol=2e-3)
    print("welford ok")
