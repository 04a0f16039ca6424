import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=-1)
def grouped_conv(N, H, W, C, OC, KS, stride, pad, dil, groups, block_P=32, block_F=16):
    OH = (H + 2 * pad - dil * (KS - 1) - 1) // stride + 1
    OW = (W + 2 * pad - dil * (KS - 1) - 1) // stride + 1
    CG = C // groups
    FG = OC // groups
    pixels = N * OH * OW

    @T.prim_func
    def conv(
        X: T.Tensor((N, H, W, C), "float32"),
        Wt: T.Tensor((OC, KS, KS, CG), "float32"),
        Bias: T.Tensor((OC,), "float32"),
        Y: T.Tensor((pixels, OC), "float32"),
    ):
        with T.Kernel(T.ceildiv(pixels, block_P), T.ceildiv(OC, block_F), threads=128) as (bp, bf):
            acc = T.alloc_fragment((block_P, block_F), "float32")
            for i, j in T.Parallel(block_P, block_F):
                acc[i, j] = Bias[bf * block_F + j]
            for kh, kw, c in T.grid(KS, KS, CG):
                for i, j in T.Parallel(block_P, block_F):
                    p = bp * block_P + i
                    f = bf * block_F + j
                    ih = (p // OW) % OH * stride + kh * dil - pad
                    iw = p % OW * stride + kw * dil - pad
                    ic = (f % groups) * CG + c  # BUG
                    if p < pixels and ih >= 0 and ih < H and iw >= 0 and iw < W:
                        acc[i, j] += X[p // (OH * OW), ih, iw, ic] * Wt[f, kh, kw, c]
            for i, j in T.Parallel(block_P, block_F):
                if bp * block_P + i < pixels:
                    Y[bp * block_P + i, bf * block_F + j] = T.max(acc[i, j], 0.0)

    return conv


def torch_conv(x, w, b, stride, pad, dil, groups):
    y = F.conv2d(
        x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, stride=stride, padding=pad, dilation=dil, groups=groups
    )
    return F.relu(y).permute(0, 2, 3, 1)


def main():
    torch.manual_seed(0)
    N, H, W, C, OC, KS = 2, 11, 14, 16, 32, 3
    stride, pad, dil = 2, 2, 2
    for groups in (1, 4):
        x = torch.randn(N, H, W, C, device="cuda")
        w = torch.randn(OC, KS, KS, C // groups, device="cuda") * 0.2
        b = torch.randn(OC, device="cuda")
        ref = torch_conv(x, w, b, stride, pad, dil, groups)
        y = grouped_conv(N, H, W, C, OC, KS, stride, pad, dil, groups)(x, w, b)
        torch.testing.assert_close(y.view_as(ref), ref, rtol=1e-3, atol=1e-3)
        print(f"groups={groups} ok")


if __name__ == "__main__":
    main()
