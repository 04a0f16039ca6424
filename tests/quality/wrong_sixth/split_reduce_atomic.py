"""Column statistics (sum, sum of squares, max |x|) split over row blocks and joined by atomics."""
import argparse

import torch
import tilelang
import tilelang.language as T


def column_stats(M, N, rows_per_split=48, BM=16, BN=32):
    splits = (M + rows_per_split - 1) // rows_per_split

    @T.prim_func
    def stats(
        X: T.Tensor((M, N), "float32"),
        S1: T.Tensor((N,), "float32"),
        S2: T.Tensor((N,), "float32"),
        AMAX: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BN), splits, threads=128) as (bn, sp):
            x = T.alloc_fragment((BM, BN), "float32")
            s1 = T.alloc_fragment((BN,), "float32")
            s2 = T.alloc_fragment((BN,), "float32")
            am = T.alloc_fragment((BN,), "float32")
            T.clear(s1)
            T.clear(s2)
            T.clear(am)
            for r in T.serial(rows_per_split // BM):
                for i, j in T.Parallel(BM, BN):
                    if sp * rows_per_split + r * BM + i < M and bn * BN + j < N:
                        x[i, j] = X[sp * rows_per_split + r * BM + i, bn * BN + j]
                    else:
                        x[i, j] = 0.0
                T.reduce_sum(x, s1, dim=0, clear=False)
                T.reduce_absmax(x, am, dim=0, clear=False)
                for i, j in T.Parallel(BM, BN):
                    x[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(x, s2, dim=0, clear=False)
            for j in T.Parallel(BN):
                if bn * BN + j < N:
                    T.atomic_add(S1[bn * BN + j], s1[j])
                    T.atomic_add(S2[bn * BN + j], s2[j])
                    T.atomic_max(AMAX[bn * BN + j], am[j])

    return stats


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=205)
    ap.add_argument("--cols", type=int, default=70)
    args = ap.parse_args()
    torch.manual_seed(5)
    x = torch.randn(args.rows, args.cols, device="cuda") - 0.5
    kernel = tilelang.compile(column_stats(args.rows, args.cols))
    s1, s2, am = (torch.zeros(args.cols, device="cuda") for _ in range(3))
    kernel(x, s1, s2, am)
    torch.testing.assert_close(s1, x.sum(0), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(s2, (x * x).sum(0), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(am, x.abs().amax(0))
    print("column stats ok")


if __name__ == "__main__":
    main()
