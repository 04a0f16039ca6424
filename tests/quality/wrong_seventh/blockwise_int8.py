import sys

import torch
import tilelang
import tilelang.language as T

GROUP = 32


@tilelang.jit
def quantize(x, rows: int = 8):
    M, N = T.const("M N")
    x: T.Tensor[[M, N], T.float16]
    codes = T.empty((M, N), T.int8)
    scales = T.empty((M, N // GROUP), T.float32)

    with T.Kernel(N // GROUP, T.ceildiv(M, rows), threads=64) as (bg, bm):
        xf = T.alloc_fragment((rows, GROUP), "float32")
        amax = T.alloc_fragment((rows,), "float32")
        inv = T.alloc_fragment((rows,), "float32")
        for i, j in T.Parallel(rows, GROUP):
            if bm * rows + i < M:
                xf[i, j] = T.cast(x[bm * rows + i, bg * GROUP + j], "float32")
            else:
                xf[i, j] = 0.0
        T.reduce_absmax(xf, amax, dim=1)
        for i in T.Parallel(rows):
            amax[i] = T.max(amax[i], 1e-6)
            inv[i] = 127.0 / amax[i]
        for i, j in T.Parallel(rows, GROUP):
            xf[i, j] = T.max(T.min(xf[i, j] * inv[i], 127.0), -127.0)
        for i, j in T.Parallel(rows, GROUP):
            if bm * rows + i < M:
                codes[bm * rows + i, bg * GROUP + j] = T.cast(xf[i, j] + 0.5, "int8")  # BUG
        for i in T.Parallel(rows):
            if bm * rows + i < M:
                scales[bm * rows + i, bg] = amax[i] / 127.0
    return codes, scales


@tilelang.jit
def dequantize(codes, scales, rows: int = 8):
    M, N, G = T.const("M N G")
    codes: T.Tensor[[M, N], T.int8]
    scales: T.Tensor[[M, G], T.float32]
    y = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(M, rows), threads=64) as bm:
        for i, j in T.Parallel(rows, N):
            if bm * rows + i < M:
                y[bm * rows + i, j] = T.cast(
                    T.cast(codes[bm * rows + i, j], "float32") * scales[bm * rows + i, j // GROUP], "float16"
                )
    return y


def quantize_ref(x):
    g = x.float().view(x.shape[0], -1, GROUP)
    scale = g.abs().amax(-1).clamp_min(1e-6) / 127.0
    q = torch.round(g / scale[..., None]).clamp(-127, 127).to(torch.int8)
    return q.view_as(x), scale


torch.manual_seed(3)
x = torch.randn(44, 256, device="cuda", dtype=torch.float16)
x[5] *= 30.0
x[9, 64:128] = 0.0

q, s = quantize(x)
y = dequantize(q, s)
q_ref, s_ref = quantize_ref(x)

scale_ok = torch.allclose(s, s_ref, rtol=1e-5)
off = (q.int() - q_ref.int()).abs()
frac = (off > 0).float().mean().item()
half_step = s_ref.repeat_interleave(GROUP, dim=1) * 0.5
worst = ((y.float() - x.float()).abs() / (half_step + x.float().abs() * 1e-3)).max().item()
print("scales match:", scale_ok)
print(f"codes that differ: {100 * frac:.2f}% (max by {off.max().item()})")
print(f"worst round-trip error: {worst:.3f} half steps")
if not scale_ok or frac > 0.005 or worst > 1.05:
    print("FAILED")
    sys.exit(1)
print("PASSED")
