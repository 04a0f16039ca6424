"""Depthwise 1D convolution over time, causal, float32 accumulator."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def depthwise(length, channels, taps, block=64):
    @T.prim_func
    def main(
        X: T.Tensor((length, channels), "float16"),
        W: T.Tensor((taps, channels), "float16"),
        Y: T.Tensor((length, channels), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block), threads=128) as b:
            acc = T.alloc_fragment((block, channels), "float32")
            T.clear(acc)
            for k in T.serial(taps):
                for i, c in T.Parallel(block, channels):
                    t = b * block + i - k
                    if t >= 0:
                        acc[i, c] += T.Cast("float32", X[t, c]) * T.Cast("float32", W[k, c])
            T.copy(acc, Y[b * block, 0])

    return main


def reference(x, w):
    y = torch.zeros_like(x)
    for k in range(w.shape[0]):
        y[k:] += x[: x.shape[0] - k] * w[k]  # BUG
    return y.float()


if __name__ == "__main__":
    torch.manual_seed(24)
    length, channels, taps = 256, 64, 96
    x = torch.randn(length, channels, device="cuda", dtype=torch.float16)
    w = torch.randn(taps, channels, device="cuda", dtype=torch.float16)
    y = depthwise(length, channels, taps)(x, w)
    torch.testing.assert_close(y, reference(x, w), rtol=1e-3, atol=1e-3)
    print("conv1d ok")
