"""Scores of positive features: fp16 in, fp32 out, so that the caller can sum many of them."""

import tilelang
import tilelang.language as T
import torch
from tilelang.utils.tensor import torch_assert_close


def scores(M, N, K, tile_m=64, tile_n=64, tile_k=32, in_dtype="float16", accum_dtype="float16"):  # BUG
    @T.prim_func
    def main(
        Q: T.Tensor((M, K), in_dtype),
        D: T.Tensor((N, K), in_dtype),
        S: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, tile_n), T.ceildiv(M, tile_m), threads=128) as (bx, by):
            q = T.alloc_shared((tile_m, tile_k), in_dtype)
            d = T.alloc_shared((tile_n, tile_k), in_dtype)
            acc = T.alloc_fragment((tile_m, tile_n), accum_dtype)  # BUG
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, tile_k), num_stages=2):
                T.copy(Q[by * tile_m, k * tile_k], q)
                T.copy(D[bx * tile_n, k * tile_k], d)
                T.gemm(q, d, acc, transpose_B=True)
            T.copy(acc, S[by * tile_m, bx * tile_n])

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N, K = 128, 128, 512
    kernel = tilelang.compile(scores(M, N, K), out_idx=[-1])
    q = torch.randn(M, K, device="cuda").abs().half()
    d = torch.randn(N, K, device="cuda").abs().half()
    s = kernel(q, d)
    torch_assert_close(s, q.float() @ d.float().t(), rtol=1e-4, atol=1e-4)
    print("scores ok")
