"""Rotary embedding in the half-split layout, turned in place in shared memory."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def rotary(seq, heads, dim, block=32):
    half = dim // 2

    @T.prim_func
    def main(
        X: T.Tensor((heads, seq, dim), "float32"),
        Cos: T.Tensor((seq, half), "float32"),
        Sin: T.Tensor((seq, half), "float32"),
        Y: T.Tensor((heads, seq, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(seq, block), heads, threads=128) as (bs, bh):
            x = T.alloc_shared((block, dim), "float32")
            c = T.alloc_shared((block, half), "float32")
            s = T.alloc_shared((block, half), "float32")
            T.copy(X[bh, bs * block, 0], x)
            T.copy(Cos[bs * block, 0], c)
            T.copy(Sin[bs * block, 0], s)
            for i, j in T.Parallel(block, half):
                x[i, j] = x[i, j] * c[i, j] - x[i, j + half] * s[i, j]
                x[i, j + half] = x[i, j + half] * c[i, j] + x[i, j] * s[i, j]  # BUG
            T.copy(x, Y[bh, bs * block, 0])

    return main


if __name__ == "__main__":
    torch.manual_seed(2)
    seq, heads, dim = 64, 4, 64
    x = torch.randn(heads, seq, dim, device="cuda")
    freq = 10000.0 ** (-torch.arange(0, dim, 2, device="cuda").float() / dim)
    angle = torch.arange(seq, device="cuda").float()[:, None] * freq[None, :]
    cos, sin = angle.cos(), angle.sin()
    y = rotary(seq, heads, dim)(x, cos, sin)
    a, b = x.chunk(2, dim=-1)
    want = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-4)
    print("rotary ok")
