import sys

import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def histogram(n, bins, lo, hi, per_block=256, threads=128):
    inv_width = bins / (hi - lo)

    @T.prim_func
    def main(
        X: T.Tensor((n,), "float32"),
        Hist: T.Tensor((bins,), "int32"),
        Dropped: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(T.ceildiv(n, per_block), threads=threads) as bx:
            local = T.alloc_shared((bins,), "int32")
            for b in T.Parallel(bins):
                local[b] = 0
            for t in T.Parallel(per_block):
                if bx * per_block + t < n:
                    v = X[bx * per_block + t]
                    if v >= lo and v <= hi:
                        slot = T.min(T.cast(T.floor((v - lo) * inv_width), "int32"), bins - 1)
                        T.atomic_add(local[slot], 1)
                    else:
                        T.atomic_add(Dropped[0], 1)
            for b in T.Parallel(bins):
                if local[b] > 0:
                    T.atomic_add(Hist[b], local[b])

    return main


def histogram_ref(x, bins, lo, hi):
    return torch.histc(x, bins=bins, min=lo, max=hi).int()


def count_diff(a, b):
    return (a - b).abs().sum().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    wrong = 0
    for n, bins in [(1024, 32), (3000, 64), (777, 10)]:
        lo, hi = -2.0, 2.0
        x = torch.randint(-40, 41, (n,), device="cuda").float() / 16.0
        x[::50] = hi
        hist = torch.zeros(bins, dtype=torch.int32, device="cuda")
        dropped = torch.zeros(1, dtype=torch.int32, device="cuda")
        histogram(n, bins, lo, hi)(x, hist, dropped)
        ref = histogram_ref(x, bins, lo, hi)
        diff = count_diff(hist, ref) + abs(dropped.item() - (n - ref.sum().item()))
        print(f"n={n} bins={bins} counted={hist.sum().item()} dropped={dropped.item()} diff={diff}")
        wrong += diff
    sys.exit(1 if wrong else 0)
