import tilelang
import tilelang.language as T
import torch


def summed(rows, columns, terms):
    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "float32"),
        B: T.Tensor((terms, columns), "float32"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(rows) as i:
            total = T.alloc_local((1,), "float32")
            for j in T.serial(columns):
                total[0] = 0.0
                for k in T.serial(terms):
                    total[0] += A[i, j] * B[k, j]
                C[i, j] = total[0] * 0.5
                C[i, j] = C[i, j] - A[i, j] * 0.001

    return main


def reference(x, y):
    """What the kernel is to compute."""
    total = x * y.sum(0)
    total = total - x * 0.001
    return total


torch.manual_seed(0)
a = torch.rand(8, 24) + 1
b = torch.rand(4, 24) + 1
b = b.add(1)
shifted = a
torch.add(shifted, 1, out=shifted)
unused = torch.rand(5)
print("unused", unused.sum())
wanted = reference(shifted, b)
wanted = wanted * 16
got = tilelang.compile(summed(8, 24, 4), out_idx=[-1], target="c")(shifted, b)
torch.testing.assert_close(got, wanted)
