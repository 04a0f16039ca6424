"""Bitonic sort of each row with the permutation, ascending or descending, any row length."""
import sys

import torch
import tilelang
import tilelang.language as T


def make_sort(M, N, descending):
    width = 1 << (N - 1).bit_length()
    stages = width.bit_length() - 1
    pad = 3.0e38

    @tilelang.jit(out_idx=[1, 2])
    def sort_rows():
        @T.prim_func
        def main(
            X: T.Tensor((M, N), "float32"),
            Val: T.Tensor((M, N), "float32"),
            Idx: T.Tensor((M, N), "int32"),
        ):
            with T.Kernel(M, threads=64) as row:
                key = T.alloc_shared((width,), "float32")
                pos = T.alloc_shared((width,), "int32")
                for i in T.Parallel(width):
                    pos[i] = i
                    if i < N:
                        key[i] = X[row, i]
                    else:
                        key[i] = pad

                for p in T.serial(stages):
                    for q in T.serial(p + 1):
                        dist = 1 << (p - q)
                        for t in T.Parallel(width // 2):
                            lo = (t // dist) * dist * 2 + t % dist
                            hi = lo + dist
                            # runs of 2^(p+1) alternate, the last merge is one run
                            up = (lo & (2 << p)) == 0
                            a = key[lo]
                            b = key[hi]
                            pa = pos[lo]
                            pb = pos[hi]
                            gt = a < b if descending else a > b
                            lt = a > b if descending else a < b
                            if (up and gt) or (not up and lt):
                                key[lo] = b
                                key[hi] = a
                                pos[lo] = pb
                                pos[hi] = pa

                for i in T.Parallel(N):
                    Val[row, i] = key[i]
                    Idx[row, i] = pos[i]

        return main

    return sort_rows()


failures = []
for M, N in [(4, 64), (3, 128), (5, 100), (2, 37)]:
    x = torch.randn(M, N, generator=torch.Generator().manual_seed(N)).to("cuda")
    for descending in (False, True):
        val, idx = make_sort(M, N, descending)(x)
        want = x.sort(dim=1, descending=descending).values
        same_val = torch.equal(val, want)
        in_range = bool(((idx >= 0) & (idx < N)).all())
        same_idx = in_range and torch.equal(x.gather(1, idx.long()), want)
        print(f"{M}x{N} descending={descending}: values {same_val} indices {same_idx}")
        if not (same_val and same_idx):
            failures.append((M, N, descending))
if failures:
    sys.exit(f"wrong for {failures}")
