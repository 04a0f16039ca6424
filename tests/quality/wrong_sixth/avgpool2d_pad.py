import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


def window(o, kernel, stride, pad, size):
    """Half-open input range [lo, hi) that output position o averages over."""
    lo = T.max(o * stride - pad, 0)
    hi = T.min(lo + kernel, size)  # BUG
    return lo, hi


@tilelang.jit(out_idx=[-1])
def avgpool2d(N, H, W, C, ksize, stride, pad, block_P=16, dtype="float32"):
    OH = (H + 2 * pad - ksize) // stride + 1
    OW = (W + 2 * pad - ksize) // stride + 1

    @T.prim_func
    def main(
        X: T.Tensor((N, H, W, C), dtype),
        Y: T.Tensor((N, OH, OW, C), dtype),
    ):
        with T.Kernel(T.ceildiv(OW, block_P), OH, N, threads=128) as (bx, oh, n):
            acc = T.alloc_fragment((block_P, C), "float32")
            T.clear(acc)
            h_lo, h_hi = window(oh, ksize, stride, pad, H)
            for kh, kw in T.grid(ksize, ksize):
                for p, c in T.Parallel(block_P, C):
                    w_lo, w_hi = window(bx * block_P + p, ksize, stride, pad, W)
                    if h_lo + kh < h_hi and w_lo + kw < w_hi:
                        acc[p, c] += X[n, h_lo + kh, w_lo + kw, c]
            for p, c in T.Parallel(block_P, C):
                w_lo, w_hi = window(bx * block_P + p, ksize, stride, pad, W)
                if bx * block_P + p < OW:
                    Y[n, oh, bx * block_P + p, c] = acc[p, c] / T.cast((h_hi - h_lo) * (w_hi - w_lo), "float32")

    return main


def ref(x, ksize, stride, pad):
    y = F.avg_pool2d(x.permute(0, 3, 1, 2), ksize, stride, pad, count_include_pad=False)
    return y.permute(0, 2, 3, 1).contiguous()


if __name__ == "__main__":
    torch.manual_seed(0)
    N, H, W, C = 2, 23, 27, 32
    ksize, stride, pad = 3, 2, 1
    x = torch.randn(N, H, W, C, device="cuda")
    y = avgpool2d(N, H, W, C, ksize, stride, pad)(x)
    y_ref = ref(x, ksize, stride, pad)
    bad = ((y - y_ref).abs() > 1e-4).sum().item()
    print(f"{bad} / {y_ref.numel()} elements differ")
    torch.testing.assert_close(y, y_ref, rtol=1e-4, atol=1e-4)
    print("avgpool2d ok")
