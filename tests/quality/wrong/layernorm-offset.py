"""LayerNorm of signals that sit on a large offset (raw sensor counts): the kernel takes the mean first."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def normalize(rows, cols, eps=1e-5, block=4):
    @T.prim_func
    def kernel(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            x = T.alloc_fragment((block, cols), "float32")
            squares = T.alloc_fragment((block, cols), "float32")
            mean = T.alloc_fragment((block,), "float32")
            var = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block, cols):
                x[i, j] = x[i, j] - mean[i] / cols
            for i, j in T.Parallel(block, cols):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, var, dim=1)
            for i, j in T.Parallel(block, cols):
                x[i, j] = x[i, j] * T.rsqrt(var[i] / cols + eps)
            T.copy(x, Y[bx * block, 0])

    return kernel


def reference(x, eps=1e-5):
    mean = x.mean(dim=1, keepdim=True)
    variance = (x * x).mean(dim=1, keepdim=True) - mean * mean  # BUG
    return (x - mean) / torch.sqrt(variance.clamp(min=0) + eps)


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(64, 256, device="cuda") + 3000.0
    torch.testing.assert_close(normalize(64, 256)(x), reference(x), rtol=1e-3, atol=2e-3)
    print("normalize ok")
