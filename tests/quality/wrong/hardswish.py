"""x * clamp(x + 3, 0, 6) / 6 on a flat tensor."""

import tilelang
import tilelang.language as T
import torch


def hardswish(n, block=1024):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            gate = T.alloc_fragment((block,), "float32")
            for i in T.Parallel(block):
                gate[i] = T.if_then_else(bx * block + i < n, x[bx * block + i], 0.0) + 3.0
            for i in T.Parallel(block):
                gate[i] = T.min(T.min(gate[i], 0.0), 6.0)  # BUG
            for i in T.Parallel(block):
                if bx * block + i < n:
                    y[bx * block + i] = x[bx * block + i] * gate[i] / 6.0

    return main


torch.manual_seed(0)
n = 5000
kernel = tilelang.compile(hardswish(n), out_idx=[1])
x = torch.randn(n, device="cuda") * 3
torch.testing.assert_close(kernel(x), torch.nn.functional.hardswish(x), rtol=1e-5, atol=1e-5)
print("hardswish ok")
