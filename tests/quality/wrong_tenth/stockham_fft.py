"""Stockham radix-2 FFT: one launch per stage between two buffers, forward and inverse."""
import math

import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def fft_stage(batch, n, span, sign, block=32):
    half = n // 2

    @T.prim_func
    def stage(
        Src: T.Tensor((batch, n, 2), "float32"),
        Dst: T.Tensor((batch, n, 2), "float32"),
    ):
        with T.Kernel(T.ceildiv(half, block), batch, threads=block) as (bx, b):
            for i in T.Parallel(block):
                p = bx * block + i
                if p < half:
                    k = p % span
                    angle = sign * math.pi * T.cast(k, "float32") / span
                    wr = T.cos(angle)
                    wi = T.sin(angle)
                    ur = Src[b, p, 0]
                    ui = Src[b, p, 1]
                    tr = Src[b, p + half, 0] * wr - Src[b, p + half, 1] * wi
                    ti = Src[b, p + half, 0] * wi + Src[b, p + half, 1] * wr
                    o = 2 * p - k
                    Dst[b, o, 0] = ur + tr
                    Dst[b, o, 1] = ui + ti
                    Dst[b, o + span, 0] = ur - tr
                    Dst[b, o + span, 1] = ui - ti

    return stage


def fft(z, inverse=False):
    batch, n = z.shape
    src = torch.view_as_real(z).clone()
    dst = torch.empty_like(src)
    span = 1
    while span < n:
        fft_stage(batch, n, span, 1 if inverse else -1)(src, dst)
        src, dst = dst, src
        span *= 2
    out = torch.view_as_complex(src)
    return out / n if inverse else out


def main():
    torch.manual_seed(1)
    for batch, n in [(3, 2), (2, 16), (4, 128)]:
        z = torch.randn(batch, n, dtype=torch.complex64, device="cuda")
        spec = fft(z)
        err = (spec - torch.fft.fft(z.to(torch.complex128))).abs().max().item()
        back = (fft(spec, inverse=True) - z).abs().max().item()
        print(f"n={n}: forward {err:.1e}, round trip {back:.1e}")
        assert err < 1e-5 * n and back < 1e-5

    # circular convolution through the spectrum
    a, b = torch.randn(2, 1, 64, dtype=torch.complex64, device="cuda")
    via_fft = fft(fft(a) * fft(b), inverse=True)[0]
    shift = (torch.arange(64)[:, None] - torch.arange(64)[None]) % 64
    direct = a[0][shift.to(a.device)] @ b[0]
    assert torch.allclose(via_fft, direct, rtol=1e-3, atol=1e-3)
    print("convolution theorem holds")


if __name__ == "__main__":
    main()
