"""Rotary embedding on the first rotary_dim channels, halves rotated against each other."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def rope(seq, heads, dim, rotary_dim, block=16):
    half = rotary_dim // 2

    @T.prim_func
    def main(
        X: T.Tensor((seq, heads, dim), "float16"),
        Cos: T.Tensor((seq, half), "float32"),
        Sin: T.Tensor((seq, half), "float32"),
        Y: T.Tensor((seq, heads, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(seq, block), heads, threads=128) as (bx, h):
            x = T.alloc_shared((block, dim), "float16")
            y = T.alloc_shared((block, dim), "float16")
            T.copy(X[bx * block : (bx + 1) * block, h, :], x)
            T.copy(x, y)
            for i, j in T.Parallel(block, half):
                y[i, j] = x[i, j] * Cos[bx * block + i, j] - x[i, j + half] * Sin[bx * block + i, j]
                y[i, j + half] = x[i, j + half] * Cos[bx * block + i, j] - x[i, j] * Sin[bx * block + i, j]  # BUG
            T.copy(y, Y[bx * block : (bx + 1) * block, h, :])

    return main


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def reference(x, cos, sin, rotary_dim):
    rot, rest = x[..., :rotary_dim].float(), x[..., rotary_dim:]
    cos, sin = torch.cat((cos, cos), -1)[:, None], torch.cat((sin, sin), -1)[:, None]
    return torch.cat(((rot * cos + rotate_half(rot) * sin).half(), rest), dim=-1)


if __name__ == "__main__":
    torch.manual_seed(18)
    seq, heads, dim, rotary_dim = 64, 4, 64, 32
    x = torch.randn(seq, heads, dim, device="cuda").half()
    freq = 10000 ** (-torch.arange(0, rotary_dim, 2, device="cuda").float() / rotary_dim)
    angle = torch.arange(seq, device="cuda").float()[:, None] * freq
    cos, sin = angle.cos(), angle.sin()
    y = torch.empty_like(x)
    rope(seq, heads, dim, rotary_dim)(x, cos, sin, y)
    torch.testing.assert_close(y, reference(x, cos, sin, rotary_dim), rtol=1e-2, atol=1e-2)
    print("rope ok")
