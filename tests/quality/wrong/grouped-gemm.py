"""Grouped GEMM: rows are sorted by expert and padded to whole tiles, every expert has its own weights."""

import tilelang
import tilelang.language as T
import torch

TILE = 32


@tilelang.jit(out_idx=[3])
def grouped_gemm(total_rows, N, K, experts, tiles, block_N=64, block_K=32):
    @T.prim_func
    def kernel(
        X: T.Tensor((total_rows, K), "float16"),
        W: T.Tensor((experts, K, N), "float16"),
        tile_expert: T.Tensor((tiles,), "int32"),
        Y: T.Tensor((total_rows, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=128) as (bx, by):
            x = T.alloc_shared((TILE, block_K), "float16")
            w = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((TILE, block_N), "float32")
            expert = tile_expert[by]
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(X[expert * TILE, k * block_K], x)  # BUG
                T.copy(W[expert, k * block_K, bx * block_N], w)
                T.gemm(x, w, acc)
            T.copy(acc, Y[by * TILE, bx * block_N])

    return kernel


def main():
    torch.manual_seed(0)
    sizes = [64, 32, 128]
    K, N = 64, 128
    total = sum(sizes)
    x = torch.randn(total, K, device="cuda", dtype=torch.float16)
    w = torch.randn(len(sizes), K, N, device="cuda", dtype=torch.float16)
    tile_expert = torch.tensor([e for e, size in enumerate(sizes) for _ in range(size // TILE)], dtype=torch.int32)
    y = grouped_gemm(total, N, K, len(sizes), total // TILE)(x, w, tile_expert.cuda())
    parts = x.float().split(sizes)
    expected = torch.cat([part @ w[e].float() for e, part in enumerate(parts)])
    torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3)
    print("grouped gemm ok")


if __name__ == "__main__":
    main()
