"""GEMM with bias by hand-written warp specialization: one group of warps loads tiles, the other multiplies them.

Compares with torch.matmul over a few shapes and prints the throughput; TUNE=1 tries every configuration.
"""
import itertools
import os

import torch
import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(1024, 2048, 512), (2048, 2048, 2048), (4096, 1024, 512)]


def configs():
    for block_M, block_N, block_K in itertools.product((64, 128), (64, 128), (32, 64)):
        if block_M * block_N <= 128 * 128:
            yield {"block_M": block_M, "block_N": block_N, "block_K": block_K}


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


def make_inputs(M, N, K):
    torch.manual_seed(M + N + K)
    a = torch.randn(M, K, device=DEVICE, dtype=torch.bfloat16)
    b = torch.randn(K, N, device=DEVICE, dtype=torch.bfloat16)
    bias = torch.randn(N, device=DEVICE)
    return a, b, bias


def reference(a, b, bias):
    return a.float() @ b.float() + bias


def tflops(M, N, K, milliseconds):
    return 2 * M * N * K / milliseconds * 1e-9


def check(M, N, K, config):
    a, b, bias = make_inputs(M, N, K)
    c = ws_gemm_bias(a, b, bias, **config)
    torch.testing.assert_close(c.float(), reference(a, b, bias), rtol=2e-2, atol=5e-1)
    return c


def main():
    tune = os.environ.get("TUNE") == "1"
    tried = list(configs()) if tune else [{"block_M": 128, "block_N": 128, "block_K": 64}]
    for (M, N, K), config in itertools.product(SHAPES, tried):
        check(M, N, K, config)
        print(f"{M}x{N}x{K} {config} ok")


if __name__ == "__main__":
    main()
