"""2x2 max pooling of a ReLU's output in one kernel: nothing lies below 0, so the maximum starts there."""

import numpy as np
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def relu_max_pool(C, H, W):
    @T.prim_func
    def main(X: T.Tensor((C, H, W), "float32"), Y: T.Tensor((C, H // 2, W // 2), "float32")):
        with T.Kernel(C, threads=128) as c:
            best = T.alloc_fragment((H // 2, W // 2), "float32")
            T.fill(best, 0)
            for r in T.serial(2):
                for s in T.serial(2):
                    for i, j in T.Parallel(H // 2, W // 2):
                        best[i, j] = T.max(best[i, j], X[c, 2 * i + r, 2 * j + s])
            T.copy(best, Y[c, 0, 0])

    return main


if __name__ == "__main__":
    torch.manual_seed(22)
    C, H, W = 12, 48, 32
    x = torch.randn(C, H, W, device="cuda")
    y = torch.empty(C, H // 2, W // 2, device="cuda")
    relu_max_pool(C, H, W)(x, y)
    expected = torch.nn.functional.max_pool2d(torch.relu(x)[None], 2)[0]
    np.testing.assert_array_equal(y.cpu().numpy(), expected.cpu().numpy())
    print("relu + max pool ok")
