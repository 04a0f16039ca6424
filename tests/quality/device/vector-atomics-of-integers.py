"""Counts of four categories a row, added up four at a time."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def count(rows, groups, threads=128):
    @T.prim_func
    def main(X: T.Tensor((rows, 4), "int32"), Group: T.Tensor((rows,), "int32"), Out: T.Tensor((groups, 4), "int32")):
        with T.Kernel(T.ceildiv(rows, threads), threads=threads) as b:
            for i in T.Parallel(threads):
                T.atomic_addx4(Out[Group[b * threads + i], 0], X[b * threads + i, 0])

    return main


torch.manual_seed(2)
x = torch.randint(0, 5, (1024, 4), device="cuda", dtype=torch.int32)
group = torch.randint(0, 16, (1024,), device="cuda", dtype=torch.int32)
out = torch.zeros(16, 4, device="cuda", dtype=torch.int32)
count(1024, 16)(x, group, out)
expected = torch.zeros(16, 4, device="cuda", dtype=torch.int32).index_add_(0, group.long(), x)
assert torch.equal(out, expected), "counts differ"
