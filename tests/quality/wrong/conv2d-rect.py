"""2D convolution with a filter of 3 x 5, NHWC, patches gathered on the fly."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def conv2d(N, H, W, C, F, KH, KW, pad_h, pad_w, block_M=64, block_N=32, block_K=32):
    rows = N * H * W
    depth = KH * KW * C

    @T.prim_func
    def kernel(
        image: T.Tensor((N, H, W, C), "float16"),
        weight: T.Tensor((depth, F), "float16"),
        out: T.Tensor((rows, F), "float16"),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(rows, block_M), threads=128) as (bx, by):
            patch = T.alloc_shared((block_M, block_K), "float16")
            taps = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.serial(T.ceildiv(depth, block_K)):
                for i, j in T.Parallel(block_M, block_K):
                    m = by * block_M + i
                    tap = (k * block_K + j) // C
                    y = m // W % H + tap // KH - pad_h  # BUG
                    x = m % W + tap % KH - pad_w  # BUG
                    inside = (y >= 0) and (y < H) and (x >= 0) and (x < W) and (m < rows)
                    patch[i, j] = T.if_then_else(inside, image[m // (H * W), y, x, (k * block_K + j) % C], 0)
                T.copy(weight[k * block_K, bx * block_N], taps)
                T.gemm(patch, taps, acc)
            T.copy(acc, out[by * block_M, bx * block_N])

    return kernel


def main():
    torch.manual_seed(0)
    n, h, w, c, f, kh, kw = 1, 12, 16, 32, 32, 3, 5
    image = torch.randn(n, h, w, c, device="cuda", dtype=torch.float16)
    weight = torch.randn(kh, kw, c, f, device="cuda", dtype=torch.float16) * 0.1
    out = conv2d(n, h, w, c, f, kh, kw, 1, 2)(image, weight.reshape(-1, f)).view(n, h, w, f)
    expected = torch.nn.functional.conv2d(
        image.float().permute(0, 3, 1, 2), weight.float().permute(3, 2, 0, 1), padding=(1, 2)
    ).permute(0, 2, 3, 1)
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=2e-2)
    print("conv2d ok")


if __name__ == "__main__":
    main()
