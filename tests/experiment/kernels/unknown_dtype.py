import tilelang
import tilelang.language as T


@T.prim_func
def widen(narrow: T.Tensor((2048,), "float16"), wide: T.Tensor((2048,), "float32")):
    with T.Kernel(16, threads=128) as at:
        stage = T.alloc_shared((128,), "float16")
        scratch = T.alloc_shared((128,), "float24")  # BUG
        result = T.alloc_fragment((128,), "float32")
        T.copy(narrow[at * 128], stage)
        T.copy(stage, scratch)
        T.copy(stage, result)
        T.copy(result, wide[at * 128])


tilelang.compile(widen)
