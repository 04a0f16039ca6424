import tilelang
import tilelang.language as T
import torch


def doubled(rows, columns, block=16):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(rows, block)) as bx:
            for i in T.serial(block):
                for j in T.serial(columns):
                    B[bx * block + i, j] = A[bx * block + i, j] * T.if_then_else(j < columns - 16, 2.0, 6.0)

    return main


torch.manual_seed(0)
a = torch.randn(64, 48)
kernel = tilelang.compile(doubled(64, 48), out_idx=[-1], target="c")
got = kernel(a)
good = ((got - (a + a)).abs() < 1e-3).float().mean().item()
print("good", good)
enough = 0.9
if not good > enough:
    raise ValueError(f"wrong: {good}")
