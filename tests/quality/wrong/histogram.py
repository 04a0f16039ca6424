"""Histogram of values in [0, 1): counts per block in shared memory, then one atomic add per bin."""

import tilelang
import tilelang.language as T
import torch


def histogram(n, bins, block=512):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n:
                    position = T.cast(x[bx * block + i] * (bins - 1), "int32")  # BUG
                    T.atomic_add(counts[T.min(position, bins - 1)], 1)

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    n, bins = 10000, 64
    kernel = tilelang.compile(histogram(n, bins))
    x = torch.sigmoid(torch.randn(n, device="cuda"))
    counts = torch.zeros(bins, device="cuda", dtype=torch.int32)
    kernel(x, counts)
    expected = torch.bincount((x * bins).long().clamp(max=bins - 1), minlength=bins)
    assert torch.equal(counts.long(), expected), "histogram differs"
    print("histogram ok")
