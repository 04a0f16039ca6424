import tilelang
import tilelang.language as T


@tilelang.jit
def attention_scores(length=128, width=64):
    @T.prim_func
    def scores(
        Q: T.Tensor((length, width), "bfloat16"),
        K: T.Tensor((length, width), "bfloat16"),
        S: T.Tensor((length, length), "float32"),
    ):
        with T.Kernel(length // 64, threads=224) as (tile):  # BUG
            q = T.alloc_shared((64, width), "bfloat16")
            key = T.alloc_shared((length, width), "bfloat16")
            s = T.alloc_fragment((64, length), "float32")
            T.copy(Q[tile * 64, 0], q)
            T.copy(K, key)
            T.gemm(q, key, s, transpose_B=True, clear_accum=True)
            T.copy(s, S[tile * 64, 0])

    return scores


attention_scores()
