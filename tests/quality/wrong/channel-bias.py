"""Adds a bias per channel to an NCHW activation that is treated as a flat vector."""

import tilelang
import tilelang.language as T
import torch


class ChannelBias:
    def __init__(self, batch, channels, height, width, block=256):
        self.total = batch * channels * height * width
        self.kernel = tilelang.compile(self.build(channels, height, width, block), out_idx=[2])

    def build(self, channels, height, width, block):
        total = self.total

        @T.prim_func
        def add(
            x: T.Tensor((total,), "float32"), bias: T.Tensor((channels,), "float32"), y: T.Tensor((total,), "float32")
        ):
            with T.Kernel(T.ceildiv(total, block), threads=128) as bx:
                for i in T.Parallel(block):
                    at = bx * block + i
                    if at < total:
                        y[at] = x[at] + bias[at // width % channels]  # BUG

        return add

    def __call__(self, x, bias):
        return self.kernel(x.reshape(-1), bias).view_as(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(2, 6, 10, 12, device="cuda")
    bias = torch.randn(6, device="cuda")
    y = ChannelBias(2, 6, 10, 12)(x, bias)
    torch.testing.assert_close(y, x + bias[None, :, None, None])
    print("bias ok")
