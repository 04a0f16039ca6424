"""silu(gate) * up, elementwise, eager mode, for any number of columns."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def swiglu(gate, up, block_M=32, block_N=64):
    M, N = T.const("M, N")
    gate: T.Tensor((M, N), T.float16)
    up: T.Tensor((M, N), T.float16)
    out = T.empty((M, N), T.float16)

    with T.Kernel(N // block_N, T.ceildiv(M, block_M), threads=128) as (bx, by):  # BUG
        for i, j in T.Parallel(block_M, block_N):
            row = by * block_M + i
            col = bx * block_N + j
            if row < M and col < N:
                g = T.cast(gate[row, col], "float32")
                out[row, col] = T.cast(g / (1.0 + T.exp(-g)) * T.cast(up[row, col], "float32"), "float16")
    return out


if __name__ == "__main__":
    torch.manual_seed(0)
    gate = torch.randn(100, 200, device="cuda", dtype=torch.float16)
    up = torch.randn(100, 200, device="cuda", dtype=torch.float16)
    expected = torch.nn.functional.silu(gate.float()) * up.float()
    torch.testing.assert_close(swiglu(gate, up).float(), expected, rtol=1e-2, atol=1e-3)
    print("swiglu ok")
