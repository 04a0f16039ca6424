"""relu(A @ B + bias) for small M, N: split-K partial products, then a kernel that sums the splits."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def partial_gemm(M, N, K, splits, block_M=32, block_N=32, block_K=32):
    k_split = T.ceildiv(K, splits)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        P: T.Tensor((splits, M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128) as (bx, by, bz):
            A_s = T.alloc_shared((block_M, block_K), "float16")
            B_s = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(acc)
            for ko in T.serial(T.ceildiv(k_split, block_K)):
                k0 = bz * k_split + ko * block_K
                for i, k in T.Parallel(block_M, block_K):
                    A_s[i, k] = T.float16(0)
                    if by * block_M + i < M and k0 + k < K:
                        A_s[i, k] = A[by * block_M + i, k0 + k]
                for k, j in T.Parallel(block_K, block_N):
                    B_s[k, j] = T.float16(0)
                    if k0 + k < K and bx * block_N + j < N:
                        B_s[k, j] = B[k0 + k, bx * block_N + j]
                T.gemm(A_s, B_s, acc)
            for i, j in T.Parallel(block_M, block_N):
                if by * block_M + i < M and bx * block_N + j < N:
                    P[bz, by * block_M + i, bx * block_N + j] = acc[i, j]

    return main


@tilelang.jit(out_idx=[2])
def reduce_bias_relu(M, N, splits, block_M=16, block_N=32):
    @T.prim_func
    def main(
        P: T.Tensor((splits, M, N), "float32"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for s in T.serial(splits):
                for i, j in T.Parallel(block_M, block_N):
                    if by * block_M + i < M and bx * block_N + j < N:
                        acc[i, j] += P[s, by * block_M + i, bx * block_N + j]
            for i, j in T.Parallel(block_M, block_N):
                if by * block_M + i < M and bx * block_N + j < N:
                    C[by * block_M + i, bx * block_N + j] = T.max(acc[i, j] + bias[bx * block_N + j], 0.0)

    return main


def linear_relu(a, b, bias, splits):
    (M, K), N = a.shape, b.shape[1]
    parts = partial_gemm(M, N, K, splits)(a, b)
    return reduce_bias_relu(M, N, splits)(parts, bias)


def main():
    torch.manual_seed(0)
    results = []
    for M, N, K, splits in [(32, 64, 256, 4), (48, 40, 384, 2), (33, 64, 320, 4), (64, 32, 200, 1)]:
        a = torch.randn(M, K, device="cuda").half()
        b = (torch.randn(K, N, device="cuda") / K**0.5).half()
        bias = torch.randn(N, device="cuda")
        c = linear_relu(a, b, bias, splits)
        ref = torch.relu(a.float() @ b.float() + bias)
        same = torch.allclose(c, ref, rtol=1e-2, atol=1e-2)
        print(f"M={M} N={N} K={K} splits={splits}: {'ok' if same else 'MISMATCH'}")
        results.append(same)
    if not all(results):
        exit(1)


if __name__ == "__main__":
    main()
