"""2D convolution, NHWC: each block gathers its patches into shared memory and multiplies them with the filter."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def conv2d(N, H, W, C, F, KH, KW, stride, pad, block_M=64, block_N=64, block_K=32):
    OH = (H + 2 * pad - KH) // stride + 1
    OW = (W + 2 * pad - KW) // stride + 1
    rows = N * OH * OW
    depth = KH * KW * C

    @T.prim_func
    def conv(
        data: T.Tensor((N, H, W, C), "float16"),
        filters: T.Tensor((depth, F), "float16"),
        out: T.Tensor((rows, F), "float16"),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(rows, block_M), threads=128) as (bx, by):
            patches = T.alloc_shared((block_M, block_K), "float16")
            taps = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(depth, block_K), num_stages=2):
                for i, j in T.Parallel(block_M, block_K):
                    m = by * block_M + i
                    tap = k * block_K + j
                    y = m % (OH * OW) // OW * stride + tap // (KW * C) - pad
                    x = m % OW * stride + tap // C % KW - pad
                    inside = (y >= 0) and (y < H) and (x >= 0) and (x < W) and (m < rows)
                    patches[i, j] = T.if_then_else(inside, data[m // (OH * OW), y, x, tap % C], 0)
                T.copy(filters[k * block_K, bx * block_N], taps)
                T.gemm(patches, taps, acc)
            T.copy(acc, out[by * block_M, bx * block_N])

    return conv


def main():
    n, h, w, c, f = 2, 16, 12, 32, 64
    data = torch.randn(n, h, w, c, device="cuda", dtype=torch.float16)
    weight = torch.randn(3, 3, c, f, device="cuda", dtype=torch.float16) * 0.1
    for stride, pad in [(1, 1), (2, 0)]:
        kernel = conv2d(n, h, w, c, f, 3, 3, stride, pad)
        result = kernel(data, weight.reshape(-1, f))
        expected = torch.nn.functional.conv2d(
            data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), stride=stride, padding=pad
        )
        expected = expected.permute(0, 2, 3, 1)
        torch.testing.assert_close(result.view(expected.shape), expected, rtol=1e-2, atol=1e-1)
        print(f"stride {stride}, padding {pad}: ok")


if __name__ == "__main__":
    main()
