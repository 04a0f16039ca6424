"""Inclusive prefix sum of fp16 gates along time, fp32 inside the kernel, one fp16 rounding at the end."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def prefix_sum(length, channels, block=64):
    @T.prim_func
    def kernel(x: T.Tensor((length, channels), "float16"), y: T.Tensor((length, channels), "float16")):
        with T.Kernel(T.ceildiv(channels, block), threads=64) as bx:
            total = T.alloc_fragment((block,), "float32")
            T.clear(total)
            for t in T.serial(length):
                for c in T.Parallel(block):
                    total[c] += T.cast(x[t, bx * block + c], "float32")
                T.copy(total, y[t, bx * block])

    return kernel


def reference(x):
    total = torch.zeros_like(x[0])  # BUG
    rows = []
    for row in x:
        total = total + row  # BUG
        rows.append(total)
    return torch.stack(rows)


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.sigmoid(torch.randn(512, 128, device="cuda")).half()
    torch.testing.assert_close(prefix_sum(512, 128)(x), reference(x), rtol=1e-3, atol=1e-3)
    print("prefix sum ok")
