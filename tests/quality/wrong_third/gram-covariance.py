"""Gram matrix X^T X / n of a tall matrix, for a covariance estimate."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def gram(n, d, tile=64):
    @T.prim_func
    def main(X: T.Tensor((n, d), "bfloat16"), G: T.Tensor((d, d), "float32")):
        with T.Kernel(d // tile, d // tile, threads=128) as (bx, by):
            left = T.alloc_shared((tile, tile), "bfloat16")
            right = T.alloc_shared((tile, tile), "bfloat16")
            acc = T.alloc_fragment((tile, tile), "float32")
            T.clear(acc)
            for ko in T.Pipelined(n // tile, num_stages=2):
                T.copy(X[ko * tile, by * tile], left)
                T.copy(X[ko * tile, bx * tile], right)
                T.gemm(left, right, acc, transpose_B=True)  # BUG
            for i, j in T.Parallel(tile, tile):
                acc[i, j] = acc[i, j] / n
            T.copy(acc, G[by * tile, bx * tile])

    return main


if __name__ == "__main__":
    torch.manual_seed(8)
    n, d = 192, 128
    x = torch.randn(n, d, device="cuda").bfloat16()
    g = gram(n, d)(x)
    xf = x.float()
    if not torch.allclose(g, xf.t() @ xf / n, rtol=1e-3, atol=1e-3):
        raise SystemExit("gram matrix is off")
    print("gram ok")
