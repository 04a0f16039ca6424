import tilelang
import tilelang.language as T
import torch

CONFIGS = [{"threads": 128, "rows": 100}]


@tilelang.autotune(configs=CONFIGS, warmup=1, rep=1)
@tilelang.jit(out_idx=[-1])
def product(M, N, K, threads=128, rows=64):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as by:
            A_s = T.alloc_shared((rows, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((rows, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * rows, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * rows, 0])

    return main


kernel = product(256, 64, 256)
print(kernel(torch.randn(256, 256, device="cuda"), torch.randn(256, 64, device="cuda")))
