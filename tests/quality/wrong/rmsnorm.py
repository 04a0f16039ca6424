"""RMSNorm with a weight; the activations of the last layers are small, so epsilon matters."""

import tilelang
import tilelang.language as T
import torch
from helpers.macros import sum_of_squares

EPS = 1e-5


@tilelang.jit(out_idx=[2])
def rms_norm(tokens, hidden, block=8):
    @T.prim_func
    def kernel(
        X: T.Tensor((tokens, hidden), "float32"),
        W: T.Tensor((hidden,), "float32"),
        Y: T.Tensor((tokens, hidden), "float32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as bx:
            x = T.alloc_fragment((block, hidden), "float32")
            squares = T.alloc_fragment((block, hidden), "float32")
            norm = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            sum_of_squares(x, squares, norm, block, hidden)
            for i in T.Parallel(block):
                norm[i] = 1.0 / (T.sqrt(norm[i] / hidden) + EPS)  # BUG
            for i, j in T.Parallel(block, hidden):
                x[i, j] = x[i, j] * norm[i] * W[j]
            T.copy(x, Y[bx * block, 0])

    return kernel


def reference(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(64, 256, device="cuda") * 1e-2
    w = torch.randn(256, device="cuda")
    torch.testing.assert_close(rms_norm(64, 256)(x, w), reference(x, w), rtol=1e-4, atol=1e-5)
    print("rms_norm ok")
