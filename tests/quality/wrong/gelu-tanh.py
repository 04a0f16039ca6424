"""GELU (tanh form) on fp16, computed in fp32."""

import numpy as np
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def gelu(x, block=512):
    n = T.const("n")
    x: T.Tensor((n,), T.float16)
    y = T.empty((n,), T.float16)

    with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
        for i in T.Parallel(block):
            if bx * block + i < n:
                v = T.cast(x[bx * block + i], "float32")
                inner = 0.7978845608 * (v + 0.044715 * v * v * v)
                y[bx * block + i] = T.cast(0.5 * v * (1.0 + T.tanh(inner)), "float16")
    return y


def reference(x):
    return torch.nn.functional.gelu(x.float(), approximate="tanh")


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(10000, device="cuda", dtype=torch.float16)
    y = gelu(x)
    np.testing.assert_allclose(y.float().cpu().numpy(), reference(x).cpu().numpy(), rtol=1e-5, atol=1e-6)  # BUG
    print("gelu ok")
