"""Online softmax over rows whose length is no multiple of the block: what lies beyond is -inf."""

import sys

import tilelang
import tilelang.language as T
import torch


def softmax(M, N, block_M=16, block_N=64):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_prev = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            s = T.alloc_fragment((block_M,), "float32")
            T.fill(m, -T.infinity("float32"))
            T.fill(s, 0)
            for n in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.if_then_else(
                        n * block_N + j < N, X[bx * block_M + i, n * block_N + j], -T.infinity("float32")
                    )
                T.copy(m, m_prev)
                T.reduce_max(x, m, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - m[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_M):
                    s[i] = s[i] * T.exp(m_prev[i] - m[i]) + part[i]
            for n in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    if n * block_N + j < N:
                        Y[bx * block_M + i, n * block_N + j] = T.exp(X[bx * block_M + i, n * block_N + j] - m[i]) / s[i]

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    kernel = tilelang.compile(softmax(64, 300), out_idx=[1])
    x = torch.randn(64, 300, device="cuda") * 4 - 100
    y, expected = kernel(x), torch.softmax(x, dim=1)
    error = ((y - expected).abs() / expected).max().item()
    print(f"max relative error {error:.1e}")
    if error > 1e-4:
        sys.exit(1)
