"""Residual add and RMSNorm in one eager kernel with two outputs; small inputs, epsilon under the root."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def add_rms_norm(x, residual, weight, eps, block=4):
    rows, cols = T.const("rows, cols")
    x: T.Tensor((rows, cols), T.float16)
    residual: T.Tensor((rows, cols), T.float16)
    weight: T.Tensor((cols,), T.float32)
    eps: T.float32
    total = T.empty((rows, cols), T.float16)
    out = T.empty((rows, cols), T.float16)

    with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
        a = T.alloc_fragment((block, cols), T.float32)
        b = T.alloc_fragment((block, cols), T.float32)
        norm = T.alloc_fragment((block,), T.float32)
        T.copy(x[bx * block, 0], a)
        T.copy(residual[bx * block, 0], b)
        for i, j in T.Parallel(block, cols):
            a[i, j] += b[i, j]
        T.copy(a, total[bx * block, 0])
        for i, j in T.Parallel(block, cols):
            b[i, j] = a[i, j] * a[i, j]
        T.reduce_sum(b, norm, dim=1)
        for i, j in T.Parallel(block, cols):
            a[i, j] = a[i, j] * weight[j] / T.sqrt(norm[i] / cols + eps)
        T.copy(a, out[bx * block, 0])
    return total, out


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(62, 256, device="cuda").half() * 0.05
    residual = torch.randn(62, 256, device="cuda").half() * 0.05
    weight = torch.rand(256, device="cuda") + 0.5
    total, out = add_rms_norm(x, residual, weight, 1e-5)
    expected = x.float() + residual.float()
    torch.testing.assert_close(total, expected.half())
    expected = expected * torch.rsqrt(expected.pow(2).mean(1, keepdim=True) + 1e-5) * weight
    torch.testing.assert_close(out.float(), expected, rtol=2e-3, atol=1e-4)
    print("add + rms norm ok")
