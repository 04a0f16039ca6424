import sys

import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[1])
def im2col(n, c, h, w, kh, kw, stride, pad, dil, block=64, dtype="float32"):
    oh = (h + 2 * pad - dil * (kh - 1) - 1) // stride + 1
    ow = (w + 2 * pad - dil * (kw - 1) - 1) // stride + 1
    rows = c * kh * kw
    plane = h * w

    @T.prim_func
    def kernel(
        X: T.Tensor((n, c, plane), dtype),
        Col: T.Tensor((n, rows, oh * ow), dtype),
    ):
        with T.Kernel(T.ceildiv(oh * ow, block), rows, n, threads=block) as (bx, r, b):
            for t in T.Parallel(block):
                pos = bx * block + t
                ci = r // (kh * kw)
                ki = (r // kw) % kh
                kj = r % kw
                iy = (pos // ow) * stride - pad + ki * dil
                ix = (pos % ow) * stride - pad + kj * dil
                src = iy * w + ix
                if pos < oh * ow:
                    if src >= 0 and src < plane:  # BUG
                        Col[b, r, pos] = X[b, ci, src]
                    else:
                        Col[b, r, pos] = T.cast(0, dtype)

    return kernel


def unfold_ref(x, k, stride, pad, dil):
    return F.unfold(x, k, dilation=dil, padding=pad, stride=stride)


def bad_fraction(got, want):
    return (got != want).float().mean().item()


def run(n, c, h, w, k, stride, pad, dil):
    x = torch.randn(n, c, h, w, device="cuda")
    got = im2col(n, c, h, w, k[0], k[1], stride, pad, dil)(x.view(n, c, h * w))
    want = unfold_ref(x, k, stride, pad, dil)
    assert got.shape == want.shape
    return bad_fraction(got, want)


if __name__ == "__main__":
    torch.manual_seed(0)
    configs = {
        "valid 3x3": (2, 3, 12, 10, (3, 3), 1, 0, 1),
        "same 3x3": (1, 4, 11, 9, (3, 3), 1, 1, 1),
        "1x1 stride 2": (2, 4, 9, 9, (1, 1), 2, 0, 1),
        "dilated 3x2": (1, 3, 16, 13, (3, 2), 2, 2, 2),
    }
    status = 0
    for name, cfg in configs.items():
        frac = run(*cfg)
        print(f"{name:<14} wrong entries {100 * frac:.2f}%")
        if frac > 0:
            status = 1
    sys.exit(status)
