"""Persistent GEMM: a few blocks walk over all the output tiles, one after another."""

import tilelang
import tilelang.language as T
import torch

BLOCKS = 6


def persistent_gemm(M, N, K, bm=64, bn=64, bk=32):
    tiles_n = T.ceildiv(N, bn)
    tiles = T.ceildiv(M, bm) * tiles_n
    waves = T.ceildiv(tiles, BLOCKS)

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(BLOCKS, threads=128) as block:
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")

            T.clear(acc)  # BUG
            for w in T.serial(waves):
                tile = w * BLOCKS + block
                if tile < tiles:
                    row = tile // tiles_n * bm
                    col = tile % tiles_n * bn
                    for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                        T.copy(A[row, k * bk], a)
                        T.copy(B[k * bk, col], b)
                        T.gemm(a, b, acc)  # BUG
                    T.copy(acc, C[row, col])

    return main


torch.manual_seed(1)
M, N, K = 256, 320, 128
kernel = tilelang.compile(persistent_gemm(M, N, K), out_idx=[2])
a = torch.randn(M, K, device="cuda").half()
b = torch.randn(K, N, device="cuda").half()
result = kernel(a, b)
expected = a.float() @ b.float()
assert torch.allclose(result, expected, rtol=1e-3, atol=1e-3), (result - expected).abs().max()
print("persistent gemm matches")
