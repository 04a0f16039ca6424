"""Symmetric int8 quantization of activations, one scale per row, back to fp32 in the same kernel for a check."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def quantize_rows(x, block=8):
    rows, cols = T.const("rows, cols")
    x: T.Tensor((rows, cols), T.float32)
    q = T.empty((rows, cols), T.int8)
    scale = T.empty((rows,), T.float32)

    with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
        tile = T.alloc_fragment((block, cols), T.float32)
        quantized = T.alloc_fragment((block, cols), T.int8)
        amax = T.alloc_fragment((block,), T.float32)
        T.copy(x[bx * block, 0], tile)
        T.reduce_absmax(tile, amax, dim=1)
        for i in T.Parallel(block):
            amax[i] = T.max(amax[i], 1e-6) / 127.0
        for i, j in T.Parallel(block, cols):
            quantized[i, j] = T.cast(tile[i, j] / amax[i], T.int8)  # BUG
        T.copy(quantized, q[bx * block, 0])
        T.copy(amax, scale[bx * block])
    return q, scale


def reference(x):
    scale = x.abs().amax(1).clamp(min=1e-6) / 127.0
    return (x / scale[:, None]).round().clamp(-128, 127), scale


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(64, 256, device="cuda")
    q, scale = quantize_rows(x)
    expected, expected_scale = reference(x)
    torch.testing.assert_close(scale, expected_scale, rtol=1e-5, atol=0)
    wrong = (q.float() - expected).ne(0).float().mean().item()
    assert wrong < 1e-3, f"{wrong:.1%} of the quantized values differ"
    print("int8 quantization ok")
