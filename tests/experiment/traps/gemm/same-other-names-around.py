"""X matrix product whose two tiles disagree in K."""

import sys

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, depth=32):
    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (x, y):
            A_shared = T.alloc_shared((block_M, depth), "float16")
            B_shared = T.alloc_shared((depth * 2, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            # start from nothing
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
                T.copy(X[y * block_M, k * depth], A_shared)
                T.copy(B[k * depth, x * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[y * block_M, x * block_N])

    return main


def check(size):
    product = matmul(size, size, size)
    a = torch.randn(size, size, dtype=torch.float16)
    b = torch.randn(size, size, dtype=torch.float16)
    print(product(a, b).shape)


if __name__ == "__main__":
    print("checking", file=sys.stderr)
    check(256)
