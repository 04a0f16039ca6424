"""Grouped GEMM over ragged groups; a tile that reaches into the next group leaves its rows alone."""

import tilelang
import tilelang.language as T
import torch


def grouped(rows, groups, longest, N, K, bm=32, bn=64, bk=32):
    @T.prim_func
    def main(
        A: T.Tensor((rows, K), "float16"),
        B: T.Tensor((groups, K, N), "float16"),
        first: T.Tensor((groups,), "int32"),
        size: T.Tensor((groups,), "int32"),
        C: T.Tensor((rows, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(longest, bm), groups, threads=128) as (bx, by, g):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            start = first[g] + by * bm
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, bk)):
                for i, j in T.Parallel(bm, bk):
                    a[i, j] = T.if_then_else(by * bm + i < size[g], A[start + i, k * bk + j], 0)
                T.copy(B[g, k * bk, bx * bn], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(bm, bn):
                if by * bm + i < size[g]:
                    C[start + i, bx * bn + j] = T.cast(acc[i, j], "float16")

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    sizes = [50, 9, 33]
    N, K = 128, 96
    first = torch.tensor([sum(sizes[:g]) for g in range(len(sizes))], device="cuda", dtype=torch.int32)
    size = torch.tensor(sizes, device="cuda", dtype=torch.int32)
    a = torch.randn(sum(sizes), K, device="cuda", dtype=torch.float16)
    b = torch.randn(len(sizes), K, N, device="cuda", dtype=torch.float16)
    c = torch.empty(sum(sizes), N, device="cuda", dtype=torch.float16)
    tilelang.compile(grouped(sum(sizes), len(sizes), max(sizes), N, K))(a, b, first, size, c)
    expected = torch.cat([part.float() @ b[g].float() for g, part in enumerate(a.split(sizes))])
    torch.testing.assert_close(c.float(), expected, rtol=1e-3, atol=2e-3)
    print("grouped gemm ok")
