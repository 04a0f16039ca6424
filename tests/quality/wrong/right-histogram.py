"""Histogram of bytes, added up with atomics; the order of the additions does not matter to integers."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def byte_histogram(n, bins, block=1024):
    @T.prim_func
    def kernel(x: T.Tensor((n,), "uint8"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n:
                    T.atomic_add(counts[T.cast(x[bx * block + i], "int32") * bins // 256], 1)

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    x = (torch.randn(9999, device="cuda") * 40 + 128).clamp(0, 255).to(torch.uint8)
    counts = torch.zeros(64, device="cuda", dtype=torch.int32)
    byte_histogram(9999, 64)(x, counts)
    assert torch.equal(counts, torch.bincount(x.long() // 4, minlength=64).int())
    print("histogram ok")
