import tilelang
import tilelang.language as T


class Padding:
    @staticmethod
    def make(n):
        @T.prim_func
        def pad(a: T.Tensor((n,), "int32"), b: T.Tensor((n,), "int32")):
            with T.Kernel(n // 64, threads=64) as bid:
                line = T.alloc_shared((64,), "int32")
                T.copy(a[bid * 64], line)
                for t in T.Parallel(64):
                    if t < 3:
                        T.fill(line, 7)  # BUG
                    b[bid * 64 + t] = line[t]

        return pad


tilelang.compile(Padding.make(256))
