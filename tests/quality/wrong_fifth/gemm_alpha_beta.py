import argparse

import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_axpby(A, B, R, alpha: float, beta: float, block_M: int = 32, block_N: int = 32, block_K: int = 32):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[[K, N], T.float16]
    R: T.Tensor[[M, N], T.float16]
    D = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_s = T.alloc_shared((block_M, block_K), T.float16)
        B_s = T.alloc_shared((block_K, block_N), T.float16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        # edge tiles slide back inside the matrix; the overlap is computed twice
        row = T.min(by * block_M, M - block_M)
        col = T.min(bx * block_N, N - block_N)

        # alpha * (A @ B + (beta / alpha) * R): the residual rides in the accumulator
        for i, j in T.Parallel(block_M, block_N):
            acc[i, j] = T.cast(R[row + i, col + j], "float32") * (beta / alpha)
        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            for i, j in T.Parallel(block_M, block_K):
                A_s[i, j] = T.if_then_else(ko * block_K + j < K, A[row + i, T.min(ko * block_K + j, K - 1)], 0)
            for i, j in T.Parallel(block_K, block_N):
                B_s[i, j] = T.if_then_else(ko * block_K + i < K, B[T.min(ko * block_K + i, K - 1), col + j], 0)
            T.gemm(A_s, B_s, acc)
        for i, j in T.Parallel(block_M, block_N):
            acc[i, j] = T.max(acc[i, j] * alpha, 0.0)
        for i, j in T.Parallel(block_M, block_N):
            D[row + i, col + j] = acc[i, j]
    return D


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--m", type=int, default=72)
    parser.add_argument("--n", type=int, default=80)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--beta", type=float, default=-2.0)
    args = parser.parse_args()
    torch.manual_seed(0)
    a = torch.randn(args.m, args.k, device="cuda").half()
    b = torch.randn(args.k, args.n, device="cuda").half()
    r = torch.randn(args.m, args.n, device="cuda").half()
    d = gemm_axpby(a, b, r, args.alpha, args.beta)
    ref = torch.relu(args.alpha * (a.float() @ b.float()) + args.beta * r.float())
    torch.testing.assert_close(d.float(), ref, rtol=1e-2, atol=1e-2)
    print("gemm ok")


if __name__ == "__main__":
    main()
