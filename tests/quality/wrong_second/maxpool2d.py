"""2x2 max pooling with stride 2 over (channels, height, width)."""

import numpy as np
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def max_pool(C, H, W):
    @T.prim_func
    def main(X: T.Tensor((C, H, W), "float32"), Y: T.Tensor((C, H // 2, W // 2), "float32")):
        with T.Kernel(C, threads=128) as c:
            best = T.alloc_fragment((H // 2, W // 2), "float32")
            T.fill(best, 0)  # BUG
            for r in T.serial(2):
                for s in T.serial(2):
                    for i, j in T.Parallel(H // 2, W // 2):
                        best[i, j] = T.max(best[i, j], X[c, 2 * i + r, 2 * j + s])
            T.copy(best, Y[c, 0, 0])

    return main


if __name__ == "__main__":
    torch.manual_seed(21)
    C, H, W = 16, 32, 48
    x = torch.randn(C, H, W, device="cuda")
    y = torch.empty(C, H // 2, W // 2, device="cuda")
    max_pool(C, H, W)(x, y)
    expected = torch.nn.functional.max_pool2d(x[None], 2)[0]
    np.testing.assert_array_equal(y.cpu().numpy(), expected.cpu().numpy())
    print("max pool ok")
