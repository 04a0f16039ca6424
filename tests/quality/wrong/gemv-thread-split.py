"""GEMV in SIMT style: 32 threads share a row of the matrix, each reads 8 values at a time."""

import tilelang
import tilelang.language as T
import torch


def gemv_simt(N, K, rows_per_block=4, reduce_threads=32, vector=8):
    chunk = reduce_threads * vector

    @T.prim_func
    def main(A: T.Tensor((N, K), "float16"), x: T.Tensor((K,), "float16"), y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, rows_per_block), threads=(reduce_threads, rows_per_block)) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            a_local = T.alloc_local((vector,), "float16")
            x_local = T.alloc_local((vector,), "float16")
            acc = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")

            T.clear(acc)
            row = bx * rows_per_block + ty
            for ko in T.serial(K // chunk):  # BUG
                for v in T.vectorized(vector):
                    a_local[v] = A[row, ko * chunk + tx * vector + v]
                    x_local[v] = x[ko * chunk + tx * vector + v]
                for v in T.serial(vector):
                    acc[0] += T.cast(a_local[v], "float32") * T.cast(x_local[v], "float32")
            with T.attr(
                T.comm_reducer(lambda a, b: a + b, [T.Cast("float32", 0)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), acc[0], True, total[0], tx, dtype="handle"))
            y[row] = total[0]

    return main


torch.manual_seed(5)
N, K = 128, 384
kernel = tilelang.compile(gemv_simt(N, K), out_idx=[2])
A = torch.randn(N, K, device="cuda", dtype=torch.float16)
x = torch.randn(K, device="cuda", dtype=torch.float16)
y = kernel(A, x)
torch.testing.assert_close(y, A.float() @ x.float(), rtol=1e-3, atol=1e-3)
print("gemv ok", tuple(y.shape))
