import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def dilated_conv2d(N, C, F_, H, W, KS, stride, pad, dil):
    OH = (H + 2 * pad - dil * (KS - 1) - 1) // stride + 1
    OW = (W + 2 * pad - dil * (KS - 1) - 1) // stride + 1

    @T.prim_func
    def main(
        X: T.Tensor((N, C, H, W), "float32"),
        Wt: T.Tensor((F_, C, KS, KS), "float32"),
        Y: T.Tensor((N, F_, OH, OW), "float32"),
    ):
        with T.Kernel(F_, N, threads=64) as (f, n):
            acc = T.alloc_fragment((OH, OW), "float32")
            T.clear(acc)
            for c in T.serial(C):
                for kh, kw in T.grid(KS, KS):
                    for oh, ow in T.Parallel(OH, OW):
                        ih = oh * stride - pad + kh * dil
                        iw = ow * stride - pad + kw * dil
                        if ih >= 0 and ih < H and iw >= 0 and iw < W:
                            acc[oh, ow] += X[n, c, ih, iw] * Wt[f, c, kh, kw]
            for oh, ow in T.Parallel(OH, OW):
                Y[n, f, oh, ow] = T.max(acc[oh, ow], 0.0)

    return main


@tilelang.jit(out_idx=[3])
def conv_transpose2d(N, C, F_, H, W, KS, stride, pad, out_pad):
    OH = (H - 1) * stride - 2 * pad + KS + out_pad
    OW = (W - 1) * stride - 2 * pad + KS + out_pad

    @T.prim_func
    def main(
        X: T.Tensor((N, C, H, W), "float32"),
        Wt: T.Tensor((C, F_, KS, KS), "float32"),
        Bias: T.Tensor((F_,), "float32"),
        Y: T.Tensor((N, F_, OH, OW), "float32"),
    ):
        with T.Kernel(F_, N, threads=64) as (f, n):
            acc = T.alloc_fragment((OH, OW), "float32")
            for oh, ow in T.Parallel(OH, OW):
                acc[oh, ow] = Bias[f]
            for c in T.serial(C):
                for kh, kw in T.grid(KS, KS):
                    for oh, ow in T.Parallel(OH, OW):
                        th = oh + pad - kh
                        tw = ow + pad - kw
                        if th >= 0 and tw >= 0 and th % stride == 0 and tw % stride == 0:
                            if th // stride < H and tw // stride < W:
                                acc[oh, ow] += X[n, c, th // stride, tw // stride] * Wt[f, c, kh, kw]  # BUG
            for oh, ow in T.Parallel(OH, OW):
                Y[n, f, oh, ow] = acc[oh, ow]

    return main


def relative(a, b):
    return (a - b).abs().max().item() / b.abs().max().item()


def main():
    torch.manual_seed(7)
    N, C, H, W, KS = 2, 12, 16, 16, 3
    x = torch.randn(N, C, H, W, device="cuda")
    w_enc = torch.randn(C, C, KS, KS, device="cuda") * 0.1
    w_dec = torch.randn(C, C, KS, KS, device="cuda") * 0.1
    bias = torch.randn(C, device="cuda")

    z = dilated_conv2d(N, C, C, H, W, KS, 2, 2, 2)(x, w_enc)
    z_ref = F.relu(F.conv2d(x, w_enc, stride=2, padding=2, dilation=2))
    _, _, h, w = z_ref.shape
    y = conv_transpose2d(N, C, C, h, w, KS, 2, 1, 1)(z, w_dec, bias)
    y_ref = F.conv_transpose2d(z_ref, w_dec, bias, stride=2, padding=1, output_padding=1)

    errs = {"encoder": relative(z, z_ref), "decoder": relative(y, y_ref)}
    print(errs)
    for stage, e in errs.items():
        assert e < 1e-4, f"{stage} is off by {e:.3g}"


main()
