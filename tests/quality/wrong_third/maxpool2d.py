"""Max pooling, NCHW, square window, no padding."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[1])
def max_pool(N, C, H, W, kernel, stride):
    OH = (H - kernel) // stride + 1
    OW = (W - kernel) // stride + 1

    @T.prim_func
    def main(X: T.Tensor((N, C, H, W), "float16"), Y: T.Tensor((N, C, OH, OW), "float16")):
        with T.Kernel(C, N, threads=128) as (c, n):
            plane = T.alloc_shared((H, W), "float16")
            best = T.alloc_fragment((OH, OW), "float16")
            T.copy(X[n, c, 0, 0], plane)
            T.clear(best)  # BUG
            for kh, kw in T.grid(kernel, kernel):
                for i, j in T.Parallel(OH, OW):
                    best[i, j] = T.max(best[i, j], plane[i * stride + kh, j * stride + kw])
            T.copy(best, Y[n, c, 0, 0])

    return main


def check(N, C, H, W, kernel, stride):
    x = torch.randn(N, C, H, W, device="cuda").half()
    y = max_pool(N, C, H, W, kernel, stride)(x)
    torch.testing.assert_close(y, F.max_pool2d(x, kernel, stride), rtol=0, atol=0)


if __name__ == "__main__":
    torch.manual_seed(7)
    check(2, 4, 16, 32, 2, 2)
    print("max pool ok")
