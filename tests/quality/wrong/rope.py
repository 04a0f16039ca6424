"""Rotary position embedding, the two halves of a head rotated against each other (GPT-NeoX layout)."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def rotary(length, heads, dim, block=32):
    half = dim // 2

    @T.prim_func
    def kernel(
        x: T.Tensor((length, heads, dim), "float16"),
        cos: T.Tensor((length, half), "float32"),
        sin: T.Tensor((length, half), "float32"),
        y: T.Tensor((length, heads, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block), heads, threads=128) as (bx, h):
            tile = T.alloc_shared((block, dim), "float16")
            T.copy(x[bx * block : (bx + 1) * block, h, :], tile)
            for i, j in T.Parallel(block, half):
                t = bx * block + i
                a = T.cast(tile[i, j], "float32")
                b = T.cast(tile[i, j + half], "float32")
                y[t, h, j] = T.cast(a * cos[t, j] - b * sin[t, j], "float16")
                y[t, h, j + half] = T.cast(b * cos[t, j] - a * sin[t, j], "float16")  # BUG

    return kernel


def tables(length, dim, base=10000.0):
    frequency = base ** (-torch.arange(0, dim, 2, device="cuda").float() / dim)
    angle = torch.arange(length, device="cuda").float()[:, None] * frequency
    return angle.cos(), angle.sin()


def reference(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    rotated = torch.cat((-b, a), dim=-1)
    cos, sin = (torch.cat((t, t), dim=-1)[:, None, :] for t in (cos, sin))
    return (x.float() * cos + rotated * sin).half()


if __name__ == "__main__":
    torch.manual_seed(0)
    length, heads, dim = 96, 4, 64
    x = torch.randn(length, heads, dim, device="cuda", dtype=torch.float16)
    cos, sin = tables(length, dim)
    torch.testing.assert_close(rotary(length, heads, dim)(x, cos, sin), reference(x, cos, sin), rtol=1e-3, atol=1e-3)
    print("rope ok")
