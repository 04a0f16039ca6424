"""Rotary embedding of neighbouring pairs (GPT-J layout) at given positions."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def rope(x, positions, cos, sin, block=32):
    length, dim, context = T.const("length, dim, context")
    x: T.Tensor((length, dim), T.float32)
    positions: T.Tensor((length,), T.int32)
    cos: T.Tensor((context, dim // 2), T.float32)
    sin: T.Tensor((context, dim // 2), T.float32)
    y = T.empty((length, dim), T.float32)

    with T.Kernel(T.ceildiv(length, block), threads=128) as bx:
        for i, j in T.Parallel(block, dim // 2):
            t = bx * block + i
            if t < length:
                a = x[t, 2 * j]
                b = x[t, 2 * j + 1]
                y[t, 2 * j] = a * cos[positions[t], j] - b * sin[positions[t], j]
                y[t, 2 * j + 1] = a * sin[positions[t], j] + b * cos[positions[t], j]
    return y


if __name__ == "__main__":
    torch.manual_seed(0)
    length, dim, context = 50, 64, 128
    x = torch.randn(length, dim, device="cuda")
    positions = torch.randint(0, context, (length,), device="cuda", dtype=torch.int32)
    angle = torch.arange(context, device="cuda")[:, None] * 10000.0 ** (-torch.arange(0, dim, 2, device="cuda") / dim)
    y = rope(x, positions, angle.cos(), angle.sin())
    turned = torch.view_as_complex(x.view(length, -1, 2)) * torch.polar(torch.ones_like(angle), angle)[positions.long()]
    torch.testing.assert_close(y, torch.view_as_real(turned).flatten(1), rtol=1e-4, atol=1e-4)
    print("rope ok")
