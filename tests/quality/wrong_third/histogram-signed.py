"""Histogram of values around zero: bins of equal width, the middle edge at zero, the ends clamped."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def histogram(n, bins, width, block=256):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, block), threads=block) as b:
            local = T.alloc_shared((bins,), "int32")
            T.clear(local)
            for i in T.Parallel(block):
                if b * block + i < n:
                    place = T.cast(X[b * block + i] / width, "int32") + bins // 2  # BUG
                    T.atomic_add(local[T.min(T.max(place, 0), bins - 1)], 1)
            for i in T.Parallel(bins):
                T.atomic_add(Counts[i], local[i])

    return main


def main():
    torch.manual_seed(13)
    n, bins, width = 5000, 32, 0.25
    x = torch.randn(n, device="cuda")
    counts = torch.zeros(bins, dtype=torch.int32, device="cuda")
    histogram(n, bins, width)(x, counts)
    place = (torch.floor(x / width).long() + bins // 2).clamp(0, bins - 1)
    ref = torch.bincount(place, minlength=bins)
    assert torch.equal(counts.long(), ref), f"counts differ in {(counts != ref).sum().item()} bins"
    print("histogram ok")


main()
