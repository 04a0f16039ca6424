import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


def conv2d(n, c, h, w, oc, kh, kw, stride=1, pad=(0, 0), BM=32, BN=32, BR=16):
    """NCHW implicit GEMM. Rows are output pixels, columns output channels, the reduction runs over (c, kh, kw)."""
    ph, pw = pad
    oh = (h + 2 * ph - kh) // stride + 1
    ow = (w + 2 * pw - kw) // stride + 1
    pixels = n * oh * ow
    red = c * kh * kw

    @T.prim_func
    def conv(
        X: T.Tensor((n, c, h, w), "float32"),
        W: T.Tensor((oc, red), "float32"),
        B: T.Tensor((oc,), "float32"),
        Y: T.Tensor((n, oc, oh, ow), "float32"),
    ):
        with T.Kernel(T.ceildiv(pixels, BM), T.ceildiv(oc, BN), threads=128) as (bm, bn):
            x_s = T.alloc_shared((BM, BR), "float32")
            w_s = T.alloc_shared((BN, BR), "float32")
            acc = T.alloc_fragment((BM, BN), "float32")

            T.clear(acc)
            for ro in T.serial(T.ceildiv(red, BR)):
                for i, t in T.Parallel(BM, BR):
                    p = bm * BM + i
                    r = ro * BR + t
                    ic = r // (kh * kw)
                    ky = r // kh % kh
                    kx = r % kw
                    iy = p // ow % oh * stride + ky - ph
                    ix = p % ow * stride + kx - pw
                    inside = p < pixels and r < red and iy >= 0 and iy < h and ix >= 0 and ix < w
                    x_s[i, t] = T.if_then_else(inside, X[p // (oh * ow), ic, iy, ix], 0.0)
                for j, t in T.Parallel(BN, BR):
                    ok = bn * BN + j < oc and ro * BR + t < red
                    w_s[j, t] = T.if_then_else(ok, W[bn * BN + j, ro * BR + t], 0.0)
                T.gemm(x_s, w_s, acc, transpose_B=True)

            for i, j in T.Parallel(BM, BN):
                p = bm * BM + i
                k = bn * BN + j
                if p < pixels and k < oc:
                    Y[p // (oh * ow), k, p // ow % oh, p % ow] = acc[i, j] + B[k]

    return conv


CASES = [
    dict(n=2, c=3, h=12, w=10, oc=16, kh=3, kw=3, pad=(1, 1)),
    dict(n=1, c=4, h=16, w=16, oc=20, kh=2, kw=2, stride=2),
    dict(n=2, c=4, h=9, w=20, oc=8, kh=3, kw=5, pad=(1, 2)),
    dict(n=1, c=6, h=15, w=11, oc=12, kh=5, kw=1, stride=2, pad=(2, 0)),
]

if __name__ == "__main__":
    torch.manual_seed(4)
    failed = []
    for case in CASES:
        fan = case["c"] * case["kh"] * case["kw"]
        x = torch.randn(case["n"], case["c"], case["h"], case["w"], device="cuda")
        wt = torch.randn(case["oc"], case["c"], case["kh"], case["kw"], device="cuda") / fan**0.5
        b = torch.randn(case["oc"], device="cuda")
        y = tilelang.compile(conv2d(**case), out_idx=[3])(x, wt.view(case["oc"], -1), b)
        ref = F.conv2d(x.double(), wt.double(), b.double(), case.get("stride", 1), case.get("pad", (0, 0)))
        err = (y.double() - ref).abs().max().item()
        print(f"{case['kh']}x{case['kw']} stride {case.get('stride', 1)}: {err:.2e}")
        if not err < 2e-2:
            failed.append(case)
    assert not failed, failed
