import sys

import torch
import tilelang
import tilelang.language as T

# out = silu(x * scale[col] + shift[col]) * gate[row], on the flattened (rows, cols) tensor.
# Whole blocks need no bounds checks; what is left over goes to one last block.

BLOCK = 512


def build(rows, cols, dtype="float32"):
    total = rows * cols
    n_full = total // BLOCK
    rest = n_full * BLOCK

    @T.macro
    def silu_affine(x, a, b, g, out, idx):
        v = x * a + b
        out[idx] = v / (1.0 + T.exp(-v)) * g

    @T.prim_func
    def affine(
        X: T.Tensor((total,), dtype),
        Scale: T.Tensor((cols,), dtype),
        Shift: T.Tensor((cols,), dtype),
        Gate: T.Tensor((rows,), dtype),
        Out: T.Tensor((total,), dtype),
    ):
        with T.Kernel(n_full + 1, threads=128) as bx:
            if bx < n_full:
                for t in T.Parallel(BLOCK):
                    p = bx * BLOCK + t
                    c = p % cols
                    silu_affine(X[p], Scale[c], Shift[c], Gate[p // cols], Out, p)
            else:
                for t in T.Parallel(BLOCK):
                    p = rest + t
                    if p < total:
                        c = t % cols
                        silu_affine(X[p], Scale[c], Shift[c], Gate[p // cols], Out, p)

    return affine


def forward(x, scale, shift, gate):
    rows, cols = x.shape
    kernel = tilelang.compile(build(rows, cols), out_idx=[-1])
    return kernel(x.view(-1), scale, shift, gate.view(-1)).view(rows, cols)


torch.manual_seed(11)
bad = 0
for rows, cols in [(6, 50), (32, 64), (24, 128), (37, 100)]:
    x = torch.randn(rows, cols, device="cuda")
    scale = torch.rand(cols, device="cuda") + 0.5
    shift = torch.randn(cols, device="cuda")
    gate = torch.rand(rows, 1, device="cuda")
    got = forward(x, scale, shift, gate)
    want = torch.nn.functional.silu(x * scale + shift) * gate
    same = torch.allclose(got, want, rtol=1e-5, atol=1e-5)
    print(f"({rows}, {cols}): {'ok' if same else 'MISMATCH'}  max diff {(got - want).abs().max():.2e}")
    bad += not same
sys.exit(1 if bad else 0)
