"""RMSNorm of fp16 activations with outlier channels, in fp32 inside the kernel."""

import tilelang
import tilelang.language as T
import torch
from tilelang.utils.tensor import torch_assert_close


class RMSNorm:
    eps = 1e-6

    def __init__(self, tokens, hidden, block=8):
        eps = self.eps

        @T.prim_func
        def kernel(
            X: T.Tensor((tokens, hidden), "float16"),
            W: T.Tensor((hidden,), "float16"),
            Y: T.Tensor((tokens, hidden), "float16"),
        ):
            with T.Kernel(T.ceildiv(tokens, block), threads=128) as bx:
                x = T.alloc_fragment((block, hidden), "float32")
                squares = T.alloc_fragment((block, hidden), "float32")
                inverse = T.alloc_fragment((block,), "float32")
                T.copy(X[bx * block, 0], x)
                for i, j in T.Parallel(block, hidden):
                    squares[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(squares, inverse, dim=1)
                for i in T.Parallel(block):
                    inverse[i] = T.rsqrt(inverse[i] / hidden + eps)
                for i, j in T.Parallel(block, hidden):
                    x[i, j] = x[i, j] * inverse[i] * T.cast(W[j], "float32")
                T.copy(x, Y[bx * block, 0])

        self.kernel = tilelang.compile(kernel, out_idx=[2])

    def __call__(self, x, w):
        return self.kernel(x, w)

    def reference(self, x, w):
        mean_square = (x * x).mean(-1, keepdim=True)  # BUG
        return x * torch.rsqrt(mean_square + self.eps) * w


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(64, 256, device="cuda")
    x[:, ::64] *= 400.0
    x = x.half()
    w = torch.randn(256, device="cuda").half()
    norm = RMSNorm(64, 256)
    torch_assert_close(norm(x, w), norm.reference(x, w), rtol=1e-2, atol=1e-2)
    print("rms norm ok")
