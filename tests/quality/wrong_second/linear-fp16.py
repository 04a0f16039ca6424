"""Linear layer without bias, half precision in and out, accumulated in float32."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def linear(M, N, K, bm=64, bn=64, bk=64):
    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float16"),
        W: T.Tensor((N, K), "float16"),
        Y: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            x = T.alloc_shared((bm, bk), "float16")
            w = T.alloc_shared((bn, bk), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
                T.copy(X[by * bm, ko * bk], x)
                T.copy(W[bx * bn, ko * bk], w)
                T.gemm(x, w, acc, transpose_B=True)
            T.copy(acc, Y[by * bm, bx * bn])

    return main


if __name__ == "__main__":
    torch.manual_seed(19)
    M, N, K = 128, 256, 256
    x = torch.randn(M, K, device="cuda", dtype=torch.float16)
    w = torch.randn(N, K, device="cuda", dtype=torch.float16)
    y = linear(M, N, K)(x, w)
    expected = x.float() @ w.float().t()
    torch.testing.assert_close(y.float(), expected, rtol=1e-5, atol=1e-5)  # BUG
    print("linear ok")
