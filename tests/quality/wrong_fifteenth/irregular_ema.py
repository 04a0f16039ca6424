# Exponentially decaying sum over irregular time stamps:
#   y[n] = sum_{i <= n} exp(-lam_c * (t[n] - t[i])) * x[i, c]
# One block per group of channels walks the sequence chunk by chunk with the last y as carry.
import sys

import numpy as np
import torch
import tilelang
import tilelang.language as T


def make_ema(L, C, chunk=16, block_C=32):
    @T.prim_func
    def ema(
        X: T.Tensor((L, C), "float32"),
        Time: T.Tensor((L,), "float32"),
        Lam: T.Tensor((C,), "float32"),
        Y: T.Tensor((L, C), "float32"),
    ):
        with T.Kernel(T.ceildiv(C, block_C), threads=64) as bc:
            x_s = T.alloc_shared((chunk, block_C), "float32")
            # one time stamp of history in front of the chunk's own
            t_s = T.alloc_shared((chunk + 1,), "float32")
            y_s = T.alloc_shared((chunk, block_C), "float32")
            lam = T.alloc_shared((block_C,), "float32")
            carry = T.alloc_shared((block_C,), "float32")

            for c in T.Parallel(block_C):
                carry[c] = 0.0
                lam[c] = T.if_then_else(bc * block_C + c < C, Lam[T.min(bc * block_C + c, C - 1)], 0.0)

            for k in T.serial(T.ceildiv(L, chunk)):
                for j in T.Parallel(chunk + 1):
                    t_s[j] = Time[T.max(T.min(k * chunk + j - 1, L - 1), 0)]
                for j, c in T.Parallel(chunk, block_C):
                    x_s[j, c] = 0.0
                    if k * chunk + j < L and bc * block_C + c < C:
                        x_s[j, c] = X[k * chunk + j, bc * block_C + c]

                for j, c in T.Parallel(chunk, block_C):
                    y_s[j, c] = carry[c] * T.exp(-lam[c] * (t_s[j] - t_s[0]))
                    for i in T.serial(chunk):
                        if i <= j:
                            y_s[j, c] += x_s[i, c] * T.exp(-lam[c] * (t_s[j + 1] - t_s[i + 1]))

                for c in T.Parallel(block_C):
                    carry[c] = y_s[chunk - 1, c]
                for j, c in T.Parallel(chunk, block_C):
                    if k * chunk + j < L and bc * block_C + c < C:
                        Y[k * chunk + j, bc * block_C + c] = y_s[j, c]

    return ema


def ema_numpy(x, t, lam):
    y = np.zeros_like(x)
    h = np.zeros(x.shape[1])
    for n in range(len(t)):
        if n:
            h = h * np.exp(-lam * (t[n] - t[n - 1]))
        h = h + x[n]
        y[n] = h
    return y


def run(L, C):
    g = torch.Generator().manual_seed(L + C)
    x = torch.randn(L, C, generator=g)
    t = torch.cumsum(torch.rand(L, generator=g) * 0.8 + 0.05, 0)
    lam = torch.rand(C, generator=g) * 0.6 + 0.05
    kernel = tilelang.compile(make_ema(L, C), out_idx=[3])
    y = kernel(*(v.to(device="cuda") for v in (x, t, lam))).cpu().numpy()
    ref = ema_numpy(x.double().numpy(), t.double().numpy(), lam.double().numpy())
    return np.abs(y - ref).max()


errors = {shape: run(*shape) for shape in [(16, 32), (64, 32), (75, 40)]}
for shape, e in errors.items():
    print(shape, f"max abs err {e:.2e}")
sys.exit(0 if max(errors.values()) < 1e-3 else 1)
