import tilelang
import tilelang.language as T
import torch


def doubled(size):
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), S: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1) as _:
            for i in T.serial(size):
                B[i] = A[i] * T.if_then_else(S[i] < 0.9, 2.0, 5.0)

    return main


n = 512
a = torch.randn(n)
kernel = tilelang.compile(doubled(n), out_idx=[-1], target="c")
assert torch.allclose(kernel(a, torch.rand(n)), a + a, rtol=1e-3)
