import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def partial_gemm(M, N, K, splits, BM=32, BN=32, BK=32, dtype="float16", accum="float32"):
    num_k = (K + BK - 1) // BK
    base = num_k // splits
    extra = num_k % splits

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        Ws: T.Tensor((splits, M, N), accum),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), splits, threads=128) as (bx, by, bz):
            A_s = T.alloc_shared((BM, BK), dtype)
            B_s = T.alloc_shared((BK, BN), dtype)
            acc = T.alloc_fragment((BM, BN), accum)
            n_iter = base + T.if_then_else(bz < extra, 1, 0)
            first = bz * n_iter  # BUG
            T.clear(acc)
            for ko in T.Pipelined(n_iter, num_stages=2):
                T.copy(A[by * BM, (first + ko) * BK], A_s)
                T.copy(B[(first + ko) * BK, bx * BN], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, Ws[bz, by * BM, bx * BN])

    return main


@tilelang.jit(out_idx=[2])
def reduce_splits(M, N, splits, BM=32, BN=32, dtype="float16", accum="float32"):
    @T.prim_func
    def main(
        Ws: T.Tensor((splits, M, N), accum),
        Bias: T.Tensor((N,), accum),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            part = T.alloc_fragment((BM, BN), accum)
            total = T.alloc_fragment((BM, BN), accum)
            T.clear(total)
            for s in T.serial(splits):
                T.copy(Ws[s, by * BM, bx * BN], part)
                for i, j in T.Parallel(BM, BN):
                    total[i, j] += part[i, j]
            for i, j in T.Parallel(BM, BN):
                if by * BM + i < M and bx * BN + j < N:
                    C[by * BM + i, bx * BN + j] = T.cast(total[i, j] + Bias[bx * BN + j], dtype)

    return main


def linear(a, b, bias, splits):
    M, K = a.shape
    N = b.shape[1]
    ws = partial_gemm(M, N, K, splits)(a, b)
    return reduce_splits(M, N, splits)(ws, bias)


if __name__ == "__main__":
    torch.manual_seed(0)
    for M, N, K, splits in [(64, 64, 256, 4), (64, 96, 192, 3), (48, 64, 320, 4), (64, 40, 416, 5)]:
        a = torch.randn(M, K, device="cuda", dtype=torch.float16)
        b = torch.randn(K, N, device="cuda", dtype=torch.float16) / K**0.5
        bias = torch.randn(N, device="cuda", dtype=torch.float32)
        out = linear(a, b, bias, splits)
        ref = (a.float() @ b.float() + bias).half()
        torch.testing.assert_close(out, ref, rtol=1e-2, atol=1e-2)
        print(f"{M}x{N}x{K} split {splits}: ok")
