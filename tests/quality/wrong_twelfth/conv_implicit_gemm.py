"""NHWC convolution as an implicit GEMM: rows are output pixels, the reduction runs over (kh, kw, c)."""
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def conv_nhwc(B, H, W, C, F_out, KH, KW, stride, pad, BM=32, BN=32, BK=32, dtype="float16"):
    OH = (H + 2 * pad - KH) // stride + 1
    OW = (W + 2 * pad - KW) // stride + 1
    KT = KH * KW * C

    @T.prim_func
    def main(
        X: T.Tensor((B, H, W, C), dtype),
        Wt: T.Tensor((KT, F_out), dtype),
        Y: T.Tensor((B * OH * OW, F_out), "float32"),
    ):
        with T.Kernel(T.ceildiv(F_out, BN), T.ceildiv(B * OH * OW, BM), threads=128) as (bx, by):
            x_s = T.alloc_shared((BM, BK), dtype)
            w_s = T.alloc_shared((BK, BN), dtype)
            acc = T.alloc_fragment((BM, BN), "float32")
            T.clear(acc)
            for ko in T.serial(T.ceildiv(KT, BK)):
                for i, j in T.Parallel(BM, BK):
                    m = by * BM + i
                    k = ko * BK + j
                    kh = k // (KH * C)
                    kw = k // C % KW
                    ih = m % (OH * OW) // OW * stride + kh - pad
                    iw = m % OW * stride + kw - pad
                    inside = m < B * OH * OW and k < KT and ih >= 0 and ih < H and iw >= 0 and iw < W
                    x_s[i, j] = T.if_then_else(inside, X[m // (OH * OW), ih, iw, k % C], T.cast(0, dtype))
                for i, j in T.Parallel(BK, BN):
                    fits = ko * BK + i < KT and bx * BN + j < F_out
                    w_s[i, j] = T.if_then_else(fits, Wt[ko * BK + i, bx * BN + j], T.cast(0, dtype))
                T.gemm(x_s, w_s, acc)
            for i, j in T.Parallel(BM, BN):
                if by * BM + i < B * OH * OW and bx * BN + j < F_out:
                    Y[by * BM + i, bx * BN + j] = acc[i, j]

    return main


class Conv:
    def __init__(self, C, F_out, kernel, stride, pad):
        self.weight = (torch.randn(F_out, C, *kernel) / (C * kernel[0] * kernel[1]) ** 0.5).to("cuda").half()
        self.stride, self.pad = stride, pad

    def __call__(self, x):
        B, H, W, C = x.shape
        F_out, _, KH, KW = self.weight.shape
        flat = self.weight.permute(2, 3, 1, 0).reshape(KH * KW * C, F_out).contiguous()
        return conv_nhwc(B, H, W, C, F_out, KH, KW, self.stride, self.pad)(x, flat)

    def torch(self, x):
        y = F.conv2d(x.permute(0, 3, 1, 2).float(), self.weight.float(), stride=self.stride, padding=self.pad)
        return y.permute(0, 2, 3, 1).reshape(-1, y.shape[1])


if __name__ == "__main__":
    torch.manual_seed(21)
    for C, F_out, kernel, stride, pad in [(16, 32, (3, 3), 1, 1), (8, 48, (1, 1), 2, 0), (12, 40, (3, 5), 1, 2)]:
        conv = Conv(C, F_out, kernel, stride, pad)
        x = torch.randn(2, 10, 9, C, device="cuda").half()
        torch.testing.assert_close(conv(x), conv.torch(x), rtol=5e-3, atol=5e-3, msg=f"conv {kernel} is wrong")
        print("conv", kernel, "ok")
