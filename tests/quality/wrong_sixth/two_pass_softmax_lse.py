import torch
import tilelang
import tilelang.language as T

LOG2E = 1.4426950408889634


@tilelang.jit
def softmax_lse(X, block_M: int = 16, block_N: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float16]
    P = T.empty((M, N), T.float32)
    L = T.empty((M,), T.float32)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        x = T.alloc_fragment((block_M, block_N), T.float32)
        m = T.alloc_fragment((block_M,), T.float32)
        m_prev = T.alloc_fragment((block_M,), T.float32)
        s = T.alloc_fragment((block_M,), T.float32)
        s_tile = T.alloc_fragment((block_M,), T.float32)
        lse = T.alloc_fragment((block_M,), T.float32)

        T.fill(m, -T.infinity(T.float32))
        T.clear(s)
        # pass 1: running max and sum, everything in the exp2 domain
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.if_then_else(
                    (bx * block_M + i < M) and (k * block_N + j < N),
                    X[bx * block_M + i, k * block_N + j] * LOG2E,
                    -T.infinity(T.float32),
                )
            T.copy(m, m_prev)
            T.reduce_max(x, m, dim=1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.exp2(x[i, j] - m[i])
            T.reduce_sum(x, s_tile, dim=1)
            for i in T.Parallel(block_M):
                s[i] = s[i] * T.exp2(m_prev[i] - m[i]) + s_tile[i]

        for i in T.Parallel(block_M):
            lse[i] = T.log(s[i]) + m[i]  # BUG
        for i in T.Parallel(block_M):
            if bx * block_M + i < M:
                L[bx * block_M + i] = lse[i]

        # pass 2: probabilities from the stored normaliser
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                if bx * block_M + i < M and k * block_N + j < N:
                    P[bx * block_M + i, k * block_N + j] = T.exp(
                        T.cast(X[bx * block_M + i, k * block_N + j], T.float32) - lse[i]
                    )
    return P, L


def check(name, got, want, tol=1e-3):
    err = (got - want).abs().max().item()
    print(f"{name}: max err {err:.3e}")
    assert err < tol, f"{name} mismatch"


def main():
    torch.manual_seed(1)
    x = (torch.randn(48, 200, device="cuda") * 2).half()
    p, lse = softmax_lse(x)
    check("lse", lse, torch.logsumexp(x.float(), dim=-1))
    check("softmax", p, torch.softmax(x.float(), dim=-1))


if __name__ == "__main__":
    main()
