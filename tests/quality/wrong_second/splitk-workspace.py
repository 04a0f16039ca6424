"""Split-K GEMM: every split writes its own slice of a workspace, and torch adds them up."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def splitk(M, N, K, splits, bm=64, bn=64, bk=32):
    per_split = K // splits

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        Work: T.Tensor((splits, M, N), "float32"),
    ):
        with T.Kernel(N // bn, M // bm, splits, threads=128) as (bx, by, bz):
            a = T.alloc_shared((bm, bk), "bfloat16")
            b = T.alloc_shared((bn, bk), "bfloat16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for ko in T.serial(per_split // bk):
                T.copy(A[by * bm, bz * per_split + ko * bk], a)
                T.copy(B[bx * bn, (bz + ko) * bk], b)  # BUG
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, Work[bz, by * bm, bx * bn])

    return main


if __name__ == "__main__":
    torch.manual_seed(6)
    M, N, K, splits = 128, 128, 512, 4
    a = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(N, K, device="cuda", dtype=torch.bfloat16)
    work = splitk(M, N, K, splits)(a, b)
    expected = a.float() @ b.float().t()
    relative = ((work.sum(0) - expected).norm() / expected.norm()).item()
    assert relative < 1e-4, f"relative error {relative:.3e}"
    print("split-k ok")
