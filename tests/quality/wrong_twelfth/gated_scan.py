"""First order recurrence h[t] = a[t] * h[t-1] + b[t] as a log-step scan per chunk, state kept between calls."""
import numpy as np
import torch
import tilelang
import tilelang.language as T


def build(B, C, L, channels=4):
    steps = (L - 1).bit_length()
    assert C % channels == 0

    @T.prim_func
    def scan(
        A: T.Tensor((B, C, L), "float32"),
        X: T.Tensor((B, C, L), "float32"),
        State: T.Tensor((B, C), "float32"),
        Hout: T.Tensor((B, C, L), "float32"),
    ):
        with T.Kernel(C // channels, B, threads=128) as (bc, b):
            a = T.alloc_shared((2, channels, L), "float32")
            h = T.alloc_shared((2, channels, L), "float32")

            for c, t in T.Parallel(channels, L):
                a[0, c, t] = A[b, bc * channels + c, t]
                h[0, c, t] = X[b, bc * channels + c, t]

            # (a1, h1) then (a2, h2)  ->  (a1 * a2, ...)
            for s in T.serial(steps):
                src = s % 2
                dst = 1 - src
                for c, t in T.Parallel(channels, L):
                    if t >= (1 << s):
                        a[dst, c, t] = a[src, c, t] * a[src, c, t - (1 << s)]
                        h[dst, c, t] = h[src, c, t] + a[src, c, t - (1 << s)] * h[src, c, t - (1 << s)]
                    else:
                        a[dst, c, t] = a[src, c, t]
                        h[dst, c, t] = h[src, c, t]

            for c, t in T.Parallel(channels, L):
                h[steps % 2, c, t] = h[steps % 2, c, t] + a[steps % 2, c, t] * State[b, bc * channels + c]
            for c, t in T.Parallel(channels, L):
                Hout[b, bc * channels + c, t] = h[steps % 2, c, t]
            for c in T.Parallel(channels):
                State[b, bc * channels + c] = h[steps % 2, c, L - 1]

    return tilelang.compile(scan)


def numpy_scan(a, x):
    h = np.zeros(a.shape[:2])
    out = np.empty(a.shape)
    for t in range(a.shape[2]):
        h = a[..., t] * h + x[..., t]
        out[..., t] = h
    return out


def main():
    rng = np.random.default_rng(5)
    B, C, L, chunks = 2, 8, 48, 3
    a = rng.uniform(0.6, 1.0, (B, C, L * chunks)).astype(np.float32)
    x = rng.standard_normal((B, C, L * chunks)).astype(np.float32)
    kernel = build(B, C, L)
    state = torch.zeros(B, C, device="cuda")
    pieces = []
    for n in range(chunks):
        part = slice(n * L, (n + 1) * L)
        out = torch.empty(B, C, L, device="cuda")
        kernel(torch.tensor(a[..., part], device="cuda"), torch.tensor(x[..., part], device="cuda"), state, out)
        pieces.append(out.cpu().numpy())
    got = np.concatenate(pieces, axis=-1)
    np.testing.assert_allclose(got, numpy_scan(a.astype(np.float64), x.astype(np.float64)), rtol=1e-4, atol=1e-4)
    print("scan ok")


if __name__ == "__main__":
    main()
