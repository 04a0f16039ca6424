import tilelang
import tilelang.language as T


@tilelang.jit
def repeat():
    @T.prim_func
    def main(
        P: T.Tensor((64, 256), "float16"),
        Q: T.Tensor((256, 64), "float16"),
        R: T.Tensor((64, 64), "float32"),
        times: T.int32,
    ):
        with T.Kernel(1, threads=128):
            p = T.alloc_shared((64, 64), "float16")
            q = T.alloc_shared((64, 64), "float16")
            r = T.alloc_fragment((64, 64), "float32")
            done = T.alloc_var("int32")
            done = 0
            T.clear(r)
            while done < times:
                for part in T.Pipelined(4, num_stages=2):  # BUG
                    T.copy(P[0, part * 64], p)
                    T.copy(Q[part * 64, 0], q)
                    T.gemm(p, q, r)
                done = done + 1
            T.copy(r, R)

    return main


repeat()
