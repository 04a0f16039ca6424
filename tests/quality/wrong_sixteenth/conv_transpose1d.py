"""1-D transposed convolution (gather form): every output position collects the taps that reach it."""
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


def deconv1d(N, Cin, L, Cout, KW, stride, pad, dil, block_L=32, block_C=16):
    L_out = (L - 1) * stride - 2 * pad + dil * (KW - 1) + 1

    @T.prim_func
    def main(
        X: T.Tensor((N, Cin, L), "float32"),
        W: T.Tensor((Cin, Cout, KW), "float32"),
        Bias: T.Tensor((Cout,), "float32"),
        Y: T.Tensor((N, Cout, L_out), "float32"),
    ):
        with T.Kernel(T.ceildiv(L_out, block_L), T.ceildiv(Cout, block_C), N, threads=128) as (bl, bc, n):
            acc = T.alloc_fragment((block_C, block_L), "float32")

            for c, l in T.Parallel(block_C, block_L):
                acc[c, l] = T.if_then_else(bc * block_C + c < Cout, Bias[T.min(bc * block_C + c, Cout - 1)], 0.0)

            for k in T.serial(KW):
                for ci in T.serial(Cin):
                    for c, l in T.Parallel(block_C, block_L):
                        co = bc * block_C + c
                        # o = i * stride - pad + k * dil, solved for i
                        o = bl * block_L + l + pad
                        reach = o - k * dil
                        if co < Cout and reach >= 0 and reach < L * stride and o % stride == k % stride:
                            acc[c, l] += X[n, ci, reach // stride] * W[ci, co, k]

            for c, l in T.Parallel(block_C, block_L):
                if bc * block_C + c < Cout and bl * block_L + l < L_out:
                    Y[n, bc * block_C + c, bl * block_L + l] = acc[c, l]

    return main


CASES = [
    # N, Cin, L, Cout, KW, stride, pad, dil
    (2, 8, 40, 16, 4, 2, 1, 1),
    (1, 6, 33, 20, 3, 1, 0, 2),
    (2, 5, 25, 12, 3, 2, 2, 2),
    (1, 4, 21, 9, 5, 3, 1, 1),
]


def run(case):
    N, Cin, L, Cout, KW, stride, pad, dil = case
    g = torch.Generator().manual_seed(sum(case))
    x = torch.randn(N, Cin, L, generator=g).to("cuda")
    w = (torch.randn(Cin, Cout, KW, generator=g) / (Cin * KW) ** 0.5).to("cuda")
    b = torch.randn(Cout, generator=g).to("cuda")
    kernel = tilelang.compile(deconv1d(*case), out_idx=[3])
    y = kernel(x, w, b)
    ref = F.conv_transpose1d(x, w, b, stride=stride, padding=pad, dilation=dil)
    assert y.shape == ref.shape, (y.shape, ref.shape)
    err = (y - ref).abs().max().item()
    print(f"stride={stride} pad={pad} dil={dil} KW={KW}: max err {err:.2e}")
    return err < 1e-3


if __name__ == "__main__":
    results = [run(c) for c in CASES]
    if not all(results):
        raise SystemExit(1)
    print("all ok")
