"""GEMM whose three sizes are no multiples of the tile: the copies fill up with zeros and cut off at the edge."""

import tilelang
import tilelang.language as T
import torch


def gemm(M, N, K, bm=64, bn=64, bk=64):
    full = K // bk
    rest = K % bk

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            a_rest = T.alloc_shared((bm, bk), "float16")
            b_rest = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(full, num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, acc)
            if rest > 0:
                for i, j in T.Parallel(bm, bk):
                    inside = by * bm + i < M and full * bk + j < K
                    a_rest[i, j] = T.if_then_else(inside, A[by * bm + i, full * bk + j], 0)
                for i, j in T.Parallel(bk, bn):
                    inside = full * bk + i < K and bx * bn + j < N
                    b_rest[i, j] = T.if_then_else(inside, B[full * bk + i, bx * bn + j], 0)
                T.gemm(a_rest, b_rest, acc)
            T.copy(acc, C[by * bm, bx * bn])

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    for M, N, K in ((100, 120, 200), (130, 64, 128)):
        kernel = tilelang.compile(gemm(M, N, K), out_idx=[2])
        a = torch.randn(M, K, device="cuda", dtype=torch.float16)
        b = torch.randn(K, N, device="cuda", dtype=torch.float16)
        torch.testing.assert_close(kernel(a, b).float(), a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    print("gemm ok")
