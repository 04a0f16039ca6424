"""1D convolution with padding on both sides and stride 2, as a sum over the taps of small GEMMs."""

import tilelang
import tilelang.language as T
import torch
from helpers.compare import require_close


@tilelang.jit(out_idx=[2])
def conv1d(length, cin, cout, taps, pad, stride, block_t=32):
    steps = (length + 2 * pad - taps) // stride + 1

    @T.prim_func
    def kernel(
        x: T.Tensor((length, cin), "float16"),
        w: T.Tensor((taps, cin, cout), "float16"),
        y: T.Tensor((steps, cout), "float32"),
    ):
        with T.Kernel(T.ceildiv(steps, block_t), threads=128) as bt:
            window = T.alloc_shared((block_t, cin), "float16")
            tap = T.alloc_shared((cin, cout), "float16")
            acc = T.alloc_fragment((block_t, cout), "float32")
            T.clear(acc)
            for k in T.serial(taps):
                for i, c in T.Parallel(block_t, cin):
                    t = (bt * block_t + i) * stride + k - pad
                    window[i, c] = T.if_then_else(t >= 0 and t < length, x[t, c], 0)
                T.copy(w[k, 0, 0], tap)
                T.gemm(window, tap, acc)
            T.copy(acc, y[bt * block_t, 0])

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    length, cin, cout, taps, pad, stride = 121, 32, 64, 5, 2, 2
    x = torch.randn(length, cin, device="cuda", dtype=torch.float16)
    w = torch.randn(taps, cin, cout, device="cuda", dtype=torch.float16)
    y = conv1d(length, cin, cout, taps, pad, stride)(x, w)
    expected = torch.nn.functional.conv1d(x.float().t()[None], w.float().permute(2, 1, 0), stride=stride, padding=pad)
    require_close("conv1d", y, expected[0].t(), rtol=1e-3, atol=1e-3)
