import argparse

import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def transpose_add_(y, x, alpha: float = 1.0, tile: int = 32):
    B, M, N = T.const("B M N")
    y: T.Tensor[[B, N, M], T.float32]
    x: T.Tensor[[B, M, N], T.float16]

    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), B, threads=128) as (bn, bm, b):
        buf = T.alloc_shared((tile, tile + 1), "float32")
        for i, j in T.Parallel(tile, tile):
            if bm * tile + i < M and bn * tile + j < N:
                buf[i, j] = T.cast(x[b, bm * tile + i, bn * tile + j], "float32")
        for j, i in T.Parallel(tile, tile):
            if bn * tile + j < N and bm * tile + i < M:
                y[b, bn * tile + j, bm * tile + i] = y[b, bn * tile + j, bm * tile + i] + alpha * buf[i, j]


def max_abs_error(got, want):
    return (got - want).abs().max().item()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--alpha", type=float, default=0.5)
    opts = parser.parse_args(argv)
    torch.manual_seed(0)
    for B, M, N in [(2, 64, 64), (3, 45, 77), (1, 1, 130), (2, 33, 31)]:
        x = torch.randn(B, M, N, device="cuda", dtype=torch.float16)
        y = torch.randn(B, N, M, device="cuda")
        want = y + opts.alpha * x.float().transpose(1, 2)
        transpose_add_(y, x, alpha=opts.alpha)
        err = max_abs_error(y, want)
        print(f"B={B} M={M} N={N} err={err:.1e}")
        if err > 1e-5:
            raise SystemExit(f"transpose_add mismatch for {(B, M, N)}")
    print("ok")


if __name__ == "__main__":
    main()
