import tilelang
import tilelang.language as T


@tilelang.jit
def row_sums(width=40):
    @T.prim_func
    def sums(M: T.Tensor((width,), "float32"), S: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=40):
            regs = T.alloc_fragment((width,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(M, regs)
            for i in T.Parallel(width):
                regs[i] = regs[i] * regs[i]
            T.reduce_sum(regs, total, dim=0)  # BUG
            T.copy(total, S)

    return sums


row_sums()
