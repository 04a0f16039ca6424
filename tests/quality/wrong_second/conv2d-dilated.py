"""Dilated 2D convolution of one NHWC image, one small GEMM per tap."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def conv2d(H, W, cin, cout, taps, dilation, pad, block=64):
    out_h = H + 2 * pad - dilation * (taps - 1)
    out_w = W + 2 * pad - dilation * (taps - 1)

    @T.prim_func
    def main(
        image: T.Tensor((H, W, cin), "float16"),
        weight: T.Tensor((taps, taps, cin, cout), "float16"),
        out: T.Tensor((out_h * out_w, cout), "float32"),
    ):
        with T.Kernel(T.ceildiv(out_h * out_w, block), threads=128) as b:
            patch = T.alloc_shared((block, cin), "float16")
            tap = T.alloc_shared((cin, cout), "float16")
            acc = T.alloc_fragment((block, cout), "float32")
            T.clear(acc)
            for r, s in T.grid(taps, taps):
                for i, c in T.Parallel(block, cin):
                    y = (b * block + i) // out_w + r * dilation - pad
                    x = (b * block + i) % out_w + s - pad  # BUG
                    inside = y >= 0 and y < H and x >= 0 and x < W
                    patch[i, c] = T.if_then_else(inside, image[y, x, c], T.Cast("float16", 0))
                T.copy(weight[r, s, 0, 0], tap)
                T.gemm(patch, tap, acc)
            T.copy(acc, out[b * block, 0])

    return main


if __name__ == "__main__":
    torch.manual_seed(4)
    H, W, cin, cout, taps, dilation, pad = 16, 20, 32, 64, 3, 2, 2
    image = torch.randn(H, W, cin, device="cuda").half()
    weight = (torch.randn(taps, taps, cin, cout, device="cuda") / 16).half()
    out = conv2d(H, W, cin, cout, taps, dilation, pad)(image, weight)
    expected = torch.nn.functional.conv2d(
        image.float().permute(2, 0, 1)[None], weight.float().permute(3, 2, 0, 1), padding=pad, dilation=dilation
    )
    assert torch.allclose(out, expected[0].permute(1, 2, 0).reshape(-1, cout), rtol=1e-3, atol=1e-3)
    print("conv2d ok")
