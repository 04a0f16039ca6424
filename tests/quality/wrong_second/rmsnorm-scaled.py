"""RMSNorm of half-precision rows."""

import tilelang
import tilelang.language as T
import torch


def rms_norm(rows, width, block=8, eps=1e-6):
    @T.prim_func
    def main(
        X: T.Tensor((rows, width), "float16"),
        gain: T.Tensor((width,), "float16"),
        Y: T.Tensor((rows, width), "float16"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as b:
            x = T.alloc_fragment((block, width), "float16")
            square = T.alloc_fragment((block, width), "float16")
            total = T.alloc_fragment((block,), "float16")  # BUG
            T.copy(X[b * block, 0], x)
            for i, j in T.Parallel(block, width):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)  # BUG
            for i, j in T.Parallel(block, width):
                scale = T.rsqrt(T.Cast("float32", total[i]) / width + eps)
                Y[b * block + i, j] = T.Cast("float32", x[i, j]) * scale * T.Cast("float32", gain[j])

    return main


if __name__ == "__main__":
    torch.manual_seed(18)
    rows, width = 64, 512
    x = (torch.randn(rows, width, device="cuda") * 20).half()
    gain = (torch.rand(width, device="cuda") + 0.5).half()
    kernel = tilelang.compile(rms_norm(rows, width), out_idx=-1)
    y = kernel(x, gain)
    x32 = x.float()
    expected = x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + 1e-6) * gain.float()
    torch.testing.assert_close(y.float(), expected, rtol=1e-2, atol=1e-2)
    print("rmsnorm ok")
