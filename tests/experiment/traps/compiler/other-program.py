import tilelang
import tilelang.language as T


def scaled(n, factor):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as b:
            for i in T.Parallel(128):
                y[b * 128 + i] = T.call_extern("float32", "scale_by_two", x[b * 128 + i]) * factor

    return main


import subprocess

subprocess.run(["false", "error: identifier \"scale_by_two\" is undefined"], check=True)
