import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


def bilinear(N, C, H, W, OH, OW, BY=8, BX=16):
    sy = H / OH
    sx = W / OW

    @T.macro
    def taps(o, scale, size, lo, frac, i):
        # half pixel centres: source coordinate (o + 0.5) * scale - 0.5
        lo[i] = T.max(T.cast(T.floor((T.cast(o, "float32") + 0.5) * scale - 0.5), "int32"), 0)
        frac[i] = (T.cast(o, "float32") + 0.5) * scale - 0.5 - T.cast(lo[i], "float32")  # BUG

    @T.prim_func
    def main(X: T.Tensor((N, C, H, W), "float32"), Y: T.Tensor((N, C, OH, OW), "float32")):
        with T.Kernel(T.ceildiv(OW, BX), T.ceildiv(OH, BY), N * C, threads=128) as (bx, by, nc):
            ylo = T.alloc_shared((BY,), "int32")
            xlo = T.alloc_shared((BX,), "int32")
            yf = T.alloc_shared((BY,), "float32")
            xf = T.alloc_shared((BX,), "float32")
            n = nc // C
            c = nc % C
            for i in T.Parallel(BY):
                taps(by * BY + i, sy, H, ylo, yf, i)
            for j in T.Parallel(BX):
                taps(bx * BX + j, sx, W, xlo, xf, j)
            for i, j in T.Parallel(BY, BX):
                oy = by * BY + i
                ox = bx * BX + j
                if oy < OH and ox < OW:
                    y0 = ylo[i]
                    x0 = xlo[j]
                    y1 = T.min(y0 + 1, H - 1)
                    x1 = T.min(x0 + 1, W - 1)
                    top = X[n, c, y0, x0] * (1.0 - xf[j]) + X[n, c, y0, x1] * xf[j]
                    bot = X[n, c, y1, x0] * (1.0 - xf[j]) + X[n, c, y1, x1] * xf[j]
                    Y[n, c, oy, ox] = top * (1.0 - yf[i]) + bot * yf[i]

    return main


def compare(N, C, H, W, OH, OW):
    func = bilinear(N, C, H, W, OH, OW)
    kernel = tilelang.compile(func, out_idx=[1])
    x = torch.randn(N, C, H, W, device="cuda")
    y = kernel(x)
    ref = F.interpolate(x, size=(OH, OW), mode="bilinear", align_corners=False)
    d = (y - ref).abs()
    print(f"{H}x{W} -> {OH}x{OW}: max {d.max().item():.2e} mean {d.mean().item():.2e}")
    torch.testing.assert_close(y, ref, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    torch.manual_seed(5)
    compare(1, 2, 24, 24, 12, 12)
    compare(2, 3, 12, 20, 24, 30)
