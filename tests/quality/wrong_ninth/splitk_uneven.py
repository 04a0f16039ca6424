"""Split-K GEMM when the K tiles do not divide evenly: the first `rem` splits take one tile more."""
import torch
import tilelang
import tilelang.language as T

BM, BN, BK = 32, 32, 32


@tilelang.jit(out_idx=[2])
def partial_products(M, N, K, splits):
    tiles = (K + BK - 1) // BK
    base = tiles // splits
    rem = tiles % splits

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        P: T.Tensor((splits, M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), splits, threads=128) as (bx, by, bz):
            A_s = T.alloc_shared((BM, BK), "float16")
            B_s = T.alloc_shared((BK, BN), "float16")
            acc = T.alloc_fragment((BM, BN), "float32")

            count = base + T.if_then_else(bz < rem, 1, 0)
            start = bz * count
            T.clear(acc)
            for t in T.serial(count):
                T.copy(A[by * BM, (start + t) * BK], A_s)
                T.copy(B[(start + t) * BK, bx * BN], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, P[bz, by * BM : (by + 1) * BM, bx * BN : (bx + 1) * BN])

    return main


@tilelang.jit(out_idx=[2])
def reduce_bias(M, N, splits, block=64):
    @T.prim_func
    def main(
        P: T.Tensor((splits, M, N), "float32"),
        Bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, m):
            acc = T.alloc_fragment((block,), "float32")
            for j in T.Parallel(block):
                acc[j] = T.if_then_else(bx * block + j < N, Bias[bx * block + j], 0.0)
            for s in T.serial(splits):
                for j in T.Parallel(block):
                    if bx * block + j < N:
                        acc[j] += P[s, m, bx * block + j]
            for j in T.Parallel(block):
                if bx * block + j < N:
                    C[m, bx * block + j] = acc[j]

    return main


def linear(a, b, bias, splits):
    M, K = a.shape
    N = b.shape[1]
    return reduce_bias(M, N, splits)(partial_products(M, N, K, splits)(a, b), bias)


def main():
    torch.manual_seed(0)
    M, N = 64, 96
    for K, splits in [(256, 4), (128, 1), (320, 4), (224, 3)]:
        a = torch.randn(M, K, device="cuda").half()
        b = (torch.randn(K, N, device="cuda") / K**0.5).half()
        bias = torch.randn(N, device="cuda")
        got = linear(a, b, bias, splits)
        torch.testing.assert_close(got, a.float() @ b.float() + bias, rtol=1e-2, atol=1e-2)
        print(f"K={K} splits={splits}: ok")


if __name__ == "__main__":
    main()
