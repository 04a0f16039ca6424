"""SwiGLU in eager mode: silu(gate) * up, where gate and up are the two halves of one projection."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def swiglu(gate, up, block_rows=16, block_cols=128):
    rows, cols = T.const("rows, cols")
    gate: T.Tensor((rows, cols), T.float16)
    up: T.Tensor((rows, cols), T.float16)
    out = T.empty((rows, cols), T.float16)

    with T.Kernel(T.ceildiv(cols, block_cols), T.ceildiv(rows, block_rows), threads=128) as (bx, by):
        g = T.alloc_fragment((block_rows, block_cols), T.float32)
        u = T.alloc_fragment((block_rows, block_cols), T.float32)
        T.copy(gate[by * block_rows, bx * block_cols], g)
        T.copy(up[by * block_rows, bx * block_cols], u)
        for i, j in T.Parallel(block_rows, block_cols):
            g[i, j] = g[i, j] / (1.0 + T.exp(-g[i, j]))
        for i, j in T.Parallel(block_rows, block_cols):
            g[i, j] = g[i, j] * u[i, j]
        T.copy(g, out[by * block_rows, bx * block_cols])
    return out


@tilelang.jit
def residual_add(x, y, scale, block=1024):
    n = T.const("n")
    x: T.Tensor((n,), T.float32)
    y: T.Tensor((n,), T.float32)
    scale: T.float32
    z = T.empty((n,), T.float32)

    with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
        for i in T.Parallel(block):
            z[bx * block + i] = x[bx * block + i] + scale * y[bx * block + i]
    return z


def reference(gate, up):
    return (torch.nn.functional.silu(gate.float()) * up.float()).half()


if __name__ == "__main__":
    torch.manual_seed(0)
    for rows, hidden in ((64, 512), (128, 1024)):
        projected = torch.randn(2, rows, hidden, device="cuda").half()
        result = swiglu(projected[0], projected[1])
        torch.testing.assert_close(result, reference(projected[0], projected[1]), rtol=1e-2, atol=1e-2)

    x, y = torch.randn(2, 8192, device="cuda")
    assert torch.allclose(residual_add(x, y, 0.5), x + 0.5 * y, rtol=1e-5, atol=1e-5)
    print("swiglu and residual add: all close")
