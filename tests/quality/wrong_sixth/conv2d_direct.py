import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit
def conv2d_nchw(X, Wt, Bias, H: int, Wd: int, KS: int, stride: int, pad: int, block_P: int = 32):
    # X is [N, C, H*W] (spatial dims flattened), Wt is [F, C*KS*KS]
    N, C, HW, FO, CKK = T.const("N, C, HW, FO, CKK")
    X: T.Tensor[[N, C, HW], T.float32]
    Wt: T.Tensor[[FO, CKK], T.float32]
    Bias: T.Tensor[[FO], T.float32]
    OH = (H + 2 * pad - KS) // stride + 1
    OW = (Wd + 2 * pad - KS) // stride + 1
    Y = T.empty((N, FO, OH * OW), T.float32)

    with T.Kernel(T.ceildiv(OH * OW, block_P), N, threads=128) as (bp, n):
        patch = T.alloc_shared((KS * KS, block_P), T.float32)
        w_s = T.alloc_shared((FO, KS * KS), T.float32)
        acc = T.alloc_fragment((FO, block_P), T.float32)

        for f, p in T.Parallel(FO, block_P):
            acc[f, p] = Bias[f]
        for c in T.serial(C):
            for t, p in T.Parallel(KS * KS, block_P):
                pix = bp * block_P + p
                ih = pix // OW * stride + t // KS - pad
                iw = pix % OW * stride + t % KS - pad
                if (pix < OH * OW) and (ih * Wd + iw >= 0) and (ih * Wd + iw < H * Wd):  # BUG
                    patch[t, p] = X[n, c, ih * Wd + iw]
                else:
                    patch[t, p] = 0.0
            for f, t in T.Parallel(FO, KS * KS):
                w_s[f, t] = Wt[f, c * KS * KS + t]
            for t in T.serial(KS * KS):
                for f, p in T.Parallel(FO, block_P):
                    acc[f, p] = acc[f, p] + w_s[f, t] * patch[t, p]
        for f, p in T.Parallel(FO, block_P):
            if bp * block_P + p < OH * OW:
                Y[n, f, bp * block_P + p] = acc[f, p]
    return Y


def check(N, C, FO, H, Wd, KS, stride, pad):
    x = torch.randn(N, C, H, Wd, device="cuda")
    w = torch.randn(FO, C, KS, KS, device="cuda") / (C * KS)
    b = torch.randn(FO, device="cuda")
    ref = F.conv2d(x, w, b, stride=stride, padding=pad)
    y = conv2d_nchw(x.reshape(N, C, H * Wd), w.reshape(FO, -1), b, H, Wd, KS, stride, pad)
    y = y.reshape(ref.shape)
    err = (y - ref).abs().max().item()
    print(f"k={KS} s={stride} p={pad}: max err {err:.3e}")
    return err < 1e-3


if __name__ == "__main__":
    torch.manual_seed(0)
    oks = [check(1, 3, 8, 10, 14, 3, 1, 0), check(2, 4, 8, 13, 12, 3, 2, 1)]
    if not all(oks):
        raise SystemExit("conv2d differs from torch")
