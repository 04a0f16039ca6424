"""GEGLU with the tanh form of gelu, bfloat16 in and out."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[1])
def geglu(rows, cols, block_rows=8, block_cols=64):
    @T.prim_func
    def main(X: T.Tensor((rows, 2 * cols), "bfloat16"), Y: T.Tensor((rows, cols), "bfloat16")):
        with T.Kernel(cols // block_cols, rows // block_rows, threads=128) as (bx, by):
            gate = T.alloc_fragment((block_rows, block_cols), "float32")
            up = T.alloc_fragment((block_rows, block_cols), "float32")
            T.copy(X[by * block_rows, bx * block_cols], gate)
            T.copy(X[by * block_rows, cols + bx * block_cols], up)
            for i, j in T.Parallel(block_rows, block_cols):
                inner = 0.7978845608028654 * (gate[i, j] + 0.044715 * gate[i, j] * gate[i, j] * gate[i, j])
                up[i, j] = up[i, j] * (0.5 * gate[i, j] * (1.0 + T.tanh(inner)))
            T.copy(up, Y[by * block_rows, bx * block_cols])

    return main


torch.manual_seed(101)
rows, cols = 64, 192
x = torch.randn(rows, 2 * cols, device="cuda", dtype=torch.bfloat16)
y = geglu(rows, cols)(x)
gate, up = x.float().chunk(2, dim=1)
expected = F.gelu(gate, approximate="tanh") * up
error = (y.float() - expected).abs().max().item()
assert error < 1e-3, f"max abs error {error:.2e}"
print("geglu ok")
