"""C = alpha * (A @ B) + bias, half inputs, float accumulator, ragged M and N."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def linear(M, N, K, alpha, block_M=32, block_N=32, block_K=32):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a_s = T.alloc_shared((block_M, block_K), "float16")
            b_s = T.alloc_shared((block_K, block_N), "float16")
            bias_s = T.alloc_shared((block_N,), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            T.copy(bias[bx * block_N], bias_s)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, ko * block_K], a_s)
                T.copy(B[ko * block_K, bx * block_N], b_s)
                T.gemm(a_s, b_s, acc)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = (acc[i, j] + bias_s[j]) * alpha  # BUG
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


def main():
    torch.manual_seed(3)
    M, N, K, alpha = 72, 104, 96, 0.25
    a = torch.randn(M, K, device="cuda").half()
    b = torch.randn(K, N, device="cuda").half()
    bias = torch.randn(N, device="cuda")
    got = linear(M, N, K, alpha)(a, b, bias)
    want = alpha * (a.float() @ b.float()) + bias
    torch.testing.assert_close(got.float(), want, rtol=1e-2, atol=1e-2)
    print("linear: ok")


if __name__ == "__main__":
    main()
