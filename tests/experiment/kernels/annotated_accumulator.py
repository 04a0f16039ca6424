import tilelang
import tilelang.language as T


def matmul(m, n, k):
    @T.prim_func
    def kernel(lhs: T.Tensor((m, k), "float16"), rhs: T.Tensor((k, n), "float16"), out: T.Tensor((m, n), "float32")):
        with T.Kernel(1, 1, threads=128) as _:
            left = T.alloc_shared((m, 32), "float16")
            right = T.alloc_shared((32, n), "float16")
            total = T.alloc_fragment((m, n), "float32")
            T.annotate_layout({total: T.Fragment((m, n), forward_fn=lambda r, c: (c % 128, r))})  # BUG
            T.fill(total, 0)
            for step in T.Pipelined(k // 32, num_stages=3):
                T.copy(lhs[0, step * 32], left)
                T.copy(rhs[step * 32, 0], right)
                T.gemm(left, right, total)
            T.copy(total, out)

    return kernel


tilelang.compile(matmul(64, 128, 256))
