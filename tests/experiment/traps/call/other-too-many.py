import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def add(n, block=128):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32"), z: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            for i in T.Parallel(block):
                z[b * block + i] = x[b * block + i] + y[b * block + i]

    return main


def scale(n):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), z: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                z[i] = x[i] * 2

    return main


size = 1024
adder = add(size)
doubler = tilelang.compile(scale(128))
a = torch.ones(size, device="cuda")
b = torch.ones(size, device="cuda")
adder(a, b, b, b)
doubler(a, a)
