"""Grouped 1d transposed convolution with stride, padding and dilation; gather form, one thread per output."""
import numpy as np
import torch
import tilelang
import tilelang.language as T


def conv_transpose1d(B, cin, cout, lin, ksize, stride, pad, dil, groups, block=64):
    lout = (lin - 1) * stride - 2 * pad + dil * (ksize - 1) + 1
    cin_g, cout_g = cin // groups, cout // groups

    @T.prim_func
    def kernel(
        X: T.Tensor((B, cin, lin), "float32"),
        W: T.Tensor((cin, cout_g, ksize), "float32"),
        Bias: T.Tensor((cout,), "float32"),
        Y: T.Tensor((B, cout, lout), "float32"),
    ):
        with T.Kernel(T.ceildiv(lout, block), cout, B, threads=block) as (bl, co, b):
            acc = T.alloc_fragment((block,), "float32")
            T.fill(acc, Bias[co])
            first = co // cout_g * cin_g
            for ci in T.serial(cin_g):
                for k in T.serial(ksize):
                    for i in T.Parallel(block):
                        # full-resolution position that tap k reads, and the phase it must be on
                        pos = bl * block + i + pad - k * dil
                        phase = (bl * block + i + pad) % stride
                        if k % stride == phase and pos >= 0 and pos < lin * stride:
                            acc[i] += X[b, first + ci, pos // stride] * W[first + ci, co % cout_g, k]
            for i in T.Parallel(block):
                if bl * block + i < lout:
                    Y[b, co, bl * block + i] = acc[i]

    return tilelang.compile(kernel, out_idx=[3])


def scatter_reference(x, w, bias, stride, pad, dil, groups):
    B, cin, lin = x.shape
    _, cout_g, ksize = w.shape
    cin_g = cin // groups
    full = np.zeros((B, cout_g * groups, (lin - 1) * stride + dil * (ksize - 1) + 1))
    for g in range(groups):
        for k in range(ksize):
            xi = x[:, g * cin_g : (g + 1) * cin_g].astype(np.float64)
            tap = np.einsum("bcl,co->bol", xi, w[g * cin_g : (g + 1) * cin_g, :, k])
            full[:, g * cout_g : (g + 1) * cout_g, k * dil : k * dil + (lin - 1) * stride + 1 : stride] += tap
    return full[:, :, pad : full.shape[2] - pad] + bias[None, :, None]


CASES = [
    # cin, cout, lin, ksize, stride, pad, dil, groups
    (8, 8, 40, 4, 2, 1, 1, 2),
    (6, 4, 33, 3, 1, 2, 2, 1),
    (6, 12, 50, 3, 2, 0, 3, 3),
    (8, 6, 45, 3, 2, 1, 2, 2),
    (4, 4, 31, 5, 3, 2, 2, 1),
]


def main():
    rng = np.random.default_rng(11)
    for cin, cout, lin, ksize, stride, pad, dil, groups in CASES:
        x = rng.standard_normal((2, cin, lin)).astype(np.float32)
        w = rng.standard_normal((cin, cout // groups, ksize)).astype(np.float32)
        bias = rng.standard_normal(cout).astype(np.float32)
        kernel = conv_transpose1d(2, cin, cout, lin, ksize, stride, pad, dil, groups)
        y = kernel(*(torch.from_numpy(t).to("cuda") for t in (x, w, bias)))
        want = scatter_reference(x, w, bias, stride, pad, dil, groups)
        np.testing.assert_allclose(y.cpu().numpy(), want, rtol=1e-4, atol=1e-4, err_msg=f"k={ksize} s={stride} d={dil}")
        print(f"k={ksize} s={stride} p={pad} d={dil} g={groups}: ok")


if __name__ == "__main__":
    main()
