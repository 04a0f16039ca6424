"""3x3 max pooling, stride 2, padding 1, over NCHW planes."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def maxpool(planes, height, width, kernel=3, stride=2, pad=1, block=16):
    out_h = (height + 2 * pad - kernel) // stride + 1
    out_w = (width + 2 * pad - kernel) // stride + 1

    @T.prim_func
    def main(
        X: T.Tensor((planes, height, width), "float32"),
        Y: T.Tensor((planes, out_h, out_w), "float32"),
    ):
        with T.Kernel(T.ceildiv(out_h, block), planes, threads=128) as (bh, bp):
            tile = T.alloc_shared((block * stride + kernel - stride, width + 2 * pad), "float32")
            best = T.alloc_fragment((block, out_w), "float32")
            for r, c in T.Parallel(block * stride + kernel - stride, width + 2 * pad):
                h = bh * block * stride + r - pad
                w = c - pad
                inside = T.And(T.And(h >= 0, h < height), T.And(w >= 0, w < width))
                tile[r, c] = T.if_then_else(inside, X[bp, h, w], 0.0)  # BUG
            T.fill(best, -T.infinity("float32"))
            for kh, kw in T.grid(kernel, kernel):
                for i, j in T.Parallel(block, out_w):
                    best[i, j] = T.max(best[i, j], tile[i * stride + kh, j * stride + kw])
            for i, j in T.Parallel(block, out_w):
                if bh * block + i < out_h:
                    Y[bp, bh * block + i, j] = best[i, j]

    return main


if __name__ == "__main__":
    torch.manual_seed(10)
    batch, channels, height, width = 2, 4, 32, 32
    x = torch.randn(batch, channels, height, width, device="cuda") - 0.5
    y = maxpool(batch * channels, height, width)(x.view(-1, height, width))
    want = torch.nn.functional.max_pool2d(x, 3, stride=2, padding=1)
    torch.testing.assert_close(y.view_as(want), want)
    print("maxpool ok")
