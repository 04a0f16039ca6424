import tilelang
import tilelang.language as T

width = T.dynamic("width")


@T.prim_func
def double(vec: T.Tensor((width,), "float16"), out: T.Tensor((width,), "float16")):
    with T.Kernel(1, threads=128):
        regs = T.alloc_fragment((width,), "float16")  # BUG
        T.copy(vec, regs)
        T.copy(regs, out)


tilelang.compile(double)
