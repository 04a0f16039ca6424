"""Squared distances between two sets of map coordinates (metres in a projected grid), difference by difference."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def distances(a, b, block=32):
    M, N, D = T.const("M, N, D")
    a: T.Tensor((M, D), T.float32)
    b: T.Tensor((N, D), T.float32)
    out = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        acc = T.alloc_fragment((block, block), T.float32)
        T.clear(acc)
        for d in T.serial(D):
            for i, j in T.Parallel(block, block):
                difference = a[by * block + i, d] - b[bx * block + j, d]
                acc[i, j] += difference * difference
        T.copy(acc, out[by * block, bx * block])
    return out


def reference(a, b):
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :]
    return squares - 2.0 * a @ b.t()  # BUG


if __name__ == "__main__":
    torch.manual_seed(0)
    origin = torch.tensor([5000.0, 3500.0, 120.0], device="cuda")
    a = torch.randn(128, 3, device="cuda") * 2.0 + origin
    b = torch.randn(96, 3, device="cuda") * 2.0 + origin
    assert torch.allclose(distances(a, b), reference(a, b), rtol=1e-3, atol=1e-2), "distances differ"
    print("distances ok")
