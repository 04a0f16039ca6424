import torch
import tilelang
import tilelang.language as T


def grouped_conv(N, C, H, W, F, KH, KW, stride, pad, dil, groups, BF=8, BX=16):
    OH = (H + 2 * pad - dil * (KH - 1) - 1) // stride + 1
    OW = (W + 2 * pad - dil * (KW - 1) - 1) // stride + 1
    cg = C // groups

    @T.prim_func
    def conv(
        X: T.Tensor((N, C, H, W), "float32"),
        Wt: T.Tensor((F, cg, KH, KW), "float32"),
        bias: T.Tensor((F,), "float32"),
        Y: T.Tensor((N, F, OH, OW), "float32"),
    ):
        with T.Kernel(T.ceildiv(OW, BX), T.ceildiv(F, BF), N * OH, threads=128) as (bx, bf, bz):
            acc = T.alloc_fragment((BF, BX), "float32")
            n = bz // OH
            oy = bz % OH

            for f, x in T.Parallel(BF, BX):
                acc[f, x] = T.if_then_else(bf * BF + f < F, bias[bf * BF + f], 0.0)

            for c in T.serial(cg):
                for ky, kx in T.grid(KH, KW):
                    for f, x in T.Parallel(BF, BX):
                        ff = bf * BF + f
                        ci = ff // cg * cg + c
                        iy = oy * stride - pad + ky * dil
                        ix = (bx * BX + x) * stride - pad + kx * dil
                        if ff < F and iy >= 0 and iy < H and ix >= 0 and ix < W:
                            acc[f, x] += X[n, ci, iy, ix] * Wt[ff, c, ky, kx]

            for f, x in T.Parallel(BF, BX):
                if bf * BF + f < F and bx * BX + x < OW:
                    Y[n, bf * BF + f, oy, bx * BX + x] = T.max(acc[f, x], 0.0)

    return conv


CASES = [
    # N, C, H, W, F, KH, KW, stride, pad, dil, groups
    (1, 8, 12, 12, 8, 3, 3, 1, 1, 1, 1),
    (2, 8, 10, 14, 8, 3, 3, 2, 1, 1, 2),
    (1, 12, 9, 9, 12, 3, 1, 1, 0, 2, 12),
    (1, 24, 11, 20, 12, 3, 3, 1, 2, 2, 3),
]


def main():
    torch.manual_seed(2)
    for case in CASES:
        N, C, H, W, F, KH, KW, stride, pad, dil, groups = case
        x = torch.randn(N, C, H, W, device="cuda")
        w = torch.randn(F, C // groups, KH, KW, device="cuda") * 0.2
        b = torch.randn(F, device="cuda") * 0.2
        kernel = tilelang.compile(grouped_conv(*case), out_idx=[3])
        y = kernel(x, w, b)
        ref = torch.nn.functional.conv2d(x, w, b, stride=stride, padding=pad, dilation=dil, groups=groups)
        torch.testing.assert_close(y, ref.relu(), rtol=1e-3, atol=1e-3, msg=lambda m: f"{case}\n{m}")
    print(f"{len(CASES)} convolutions match")


main()
