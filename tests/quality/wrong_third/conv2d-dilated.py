"""3x3 convolution with dilation, NHWC, as nine small matrix products."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[2])
def conv2d(N, H, W, C, O, ks, pad, dil, block_W=16):
    OH = H + 2 * pad - dil * (ks - 1)
    OW = W + 2 * pad - dil * (ks - 1)

    @T.prim_func
    def main(
        X: T.Tensor((N, H, W, C), "float16"),
        Wt: T.Tensor((ks, ks, C, O), "float16"),
        Y: T.Tensor((N, OH, OW, O), "float16"),
    ):
        with T.Kernel(T.ceildiv(OW, block_W), OH, N, threads=128) as (bx, oh, n):
            x = T.alloc_shared((block_W, C), "float16")
            w = T.alloc_shared((C, O), "float16")
            y = T.alloc_fragment((block_W, O), "float32")
            T.clear(y)
            for tap in T.serial(ks * ks):
                kh = tap // ks
                kw = tap % ks
                for i, c in T.Parallel(block_W, C):
                    ih = oh + kh * dil - pad
                    iw = bx * block_W + i + kw - pad  # BUG
                    inside = (ih >= 0) and (ih < H) and (iw >= 0) and (iw < W)
                    x[i, c] = T.if_then_else(inside, X[n, ih, iw, c], T.cast(0, "float16"))
                T.copy(Wt[kh, kw, 0, 0], w)
                T.gemm(x, w, y)
            for i, o in T.Parallel(block_W, O):
                if bx * block_W + i < OW:
                    Y[n, oh, bx * block_W + i, o] = y[i, o]

    return main


if __name__ == "__main__":
    torch.manual_seed(22)
    N, H, W, C, O = 1, 10, 12, 16, 32
    x = torch.randn(N, H, W, C, device="cuda").half()
    w = (0.1 * torch.randn(3, 3, C, O, device="cuda")).half()
    y = conv2d(N, H, W, C, O, 3, 2, 2)(x, w)
    ref = F.conv2d(x.float().permute(0, 3, 1, 2), w.float().permute(3, 2, 0, 1), padding=2, dilation=2).permute(0, 2, 3, 1)
    torch.testing.assert_close(y.float(), ref, rtol=1e-2, atol=1e-2)
    print("conv ok")
