import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def gemv_axpby(A, x, y, out, alpha: float = 1.0, beta: float = 0.0, BN: int = 32, BK: int = 64, SPLIT: int = 4):
    Bt, N, K = T.const("Bt, N, K")
    A: T.Tensor[[Bt, N, K], T.float16]
    x: T.Tensor[[Bt, K], T.float16]
    y: T.Tensor[[Bt, N], T.float32]
    out: T.Tensor[[Bt, N], T.float32]

    with T.Kernel(T.ceildiv(N, BN), SPLIT, Bt, threads=128) as (bn, bs, b):
        a_s = T.alloc_shared((BN, BK), T.float16)
        x_s = T.alloc_shared((BK,), T.float16)
        prod = T.alloc_fragment((BN, BK), T.float32)
        part = T.alloc_fragment((BN,), T.float32)
        acc = T.alloc_fragment((BN,), T.float32)

        T.clear(acc)
        for ko in T.serial(T.ceildiv(K, BK * SPLIT)):
            # splits take K tiles in turn, so neighbours read neighbouring memory
            k0 = (ko * SPLIT + bs) * BK
            T.copy(A[b, bn * BN, k0], a_s)
            T.copy(x[b, k0], x_s)
            for i, j in T.Parallel(BN, BK):
                prod[i, j] = T.cast(a_s[i, j], "float32") * T.cast(x_s[j], "float32")
            T.reduce_sum(prod, part, dim=1)
            for i in T.Parallel(BN):
                acc[i] += part[i]

        for i in T.Parallel(BN):
            n = bn * BN + i
            if n < N:
                T.atomic_add(out[b, n], alpha * acc[i] + beta * y[b, n])  # BUG


def bgemv(A, x, y, alpha, beta):
    out = torch.zeros_like(y)
    gemv_axpby(A, x, y, out, alpha=alpha, beta=beta)
    return out


def check(name, got, want, tol=2e-2):
    err = (got - want).abs().max().item()
    print(f"{name}: max err {err:.3e}")
    return err < tol


def main():
    torch.manual_seed(7)
    Bt, N, K = 3, 80, 600
    A = torch.randn(Bt, N, K, device="cuda").half()
    x = (torch.randn(Bt, K, device="cuda") / K**0.5).half()
    y = torch.randn(Bt, N, device="cuda")

    ok = True
    for alpha, beta in [(1.0, 0.0), (0.5, 1.0), (1.0, -0.25)]:
        got = bgemv(A, x, y, alpha, beta)
        want = alpha * torch.einsum("bnk,bk->bn", A.float(), x.float()) + beta * y
        ok &= check(f"alpha={alpha} beta={beta}", got, want)
    assert ok, "bgemv mismatch"


main()
