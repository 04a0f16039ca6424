import torch
import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit
def ws_gemm_bias(A, B, bias, block_M: int, block_N: int, block_K: int):
    M, N, K = T.const("M, N, K")
    dtype, accum = T.bfloat16, T.float32
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    bias: T.Tensor((N,), accum)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        As = T.alloc_shared((block_M, block_K), dtype)
        Bs = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), accum)
        full = T.alloc_barrier(arrive_count=128)
        empty = T.alloc_barrier(arrive_count=128)

        with T.ws(1):
            T.clear(acc)

        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=0):
            with T.ws(0):
                T.barrier_wait(empty, (ko + 1) % 2)
                T.tma_copy(A[by * block_M, ko * block_K], As, barrier=full)
                T.tma_copy(B[ko * block_K, bx * block_N], Bs)
                T.barrier_arrive(full)
            with T.ws(1):
                T.barrier_wait(full, ko % 2)
                T.gemm(As, Bs, acc)
                T.barrier_arrive(empty)

        with T.ws(1):
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += bias[bx * block_N + j]
            T.copy(acc, C[by * block_M, bx * block_N])

    return C


def main(M=1024, N=2048, K=512):
    a = torch.randn(M, K, device=DEVICE, dtype=torch.bfloat16)
    b = torch.randn(K, N, device=DEVICE, dtype=torch.bfloat16)
    bias = torch.randn(N, device=DEVICE)
    c = ws_gemm_bias(a, b, bias, 128, 128, 64)
    torch.testing.assert_close(c.float(), a.float() @ b.float() + bias, rtol=2e-2, atol=5e-1)
    print("warp specialized gemm ok")


if __name__ == "__main__":
    main()
