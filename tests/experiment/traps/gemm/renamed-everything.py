
import sys

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def product(M, N, K, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float16"),
        Y: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            left = T.alloc_shared((block_M, block_K), "float16")
            right = T.alloc_shared((block_K * 2, block_N), "float16")
            total = T.alloc_fragment((block_M, block_N), "float32")
            # start from nothing
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[by * block_M, k * block_K], left)
                T.copy(Y[k * block_K, bx * block_N], right)
                T.gemm(left, right, total)
            T.copy(total, C[by * block_M, bx * block_N])

    return main


def verify(size):
    kernel = product(size, size, size)
    a = torch.randn(size, size, dtype=torch.float16)
    b = torch.randn(size, size, dtype=torch.float16)
    print(kernel(a, b).shape)


if __name__ == "__main__":
    print("verifying", file=sys.stderr)
    verify(256)
