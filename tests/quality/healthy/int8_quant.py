"""Quantize activations to int8 with one scale a row, multiply with an int8 weight, and scale back."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def quantize_rows(M, K, rows_per_block=8):
    @T.prim_func
    def quantize(
        X: T.Tensor((M, K), "float16"),
        Q: T.Tensor((M, K), "int8"),
        S: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, rows_per_block), threads=128) as bx:
            x = T.alloc_fragment((rows_per_block, K), "float32")
            amax = T.alloc_fragment((rows_per_block,), "float32")
            scale = T.alloc_fragment((rows_per_block,), "float32")
            T.copy(X[bx * rows_per_block, 0], x)
            T.reduce_absmax(x, amax, dim=1)
            for i in T.Parallel(rows_per_block):
                scale[i] = T.max(amax[i], 1e-5) / 127.0
            for i, j in T.Parallel(rows_per_block, K):
                Q[bx * rows_per_block + i, j] = T.cast(T.round(x[i, j] / scale[i]), "int8")
            for i in T.Parallel(rows_per_block):
                S[bx * rows_per_block + i] = scale[i]

    return quantize


@tilelang.jit(out_idx=[4])
def int8_linear(M, N, K, bm=64, bn=64, bk=64, threads=128):
    @T.prim_func
    def linear(
        A: T.Tensor((M, K), "int8"),
        W: T.Tensor((N, K), "int8"),
        SA: T.Tensor((M,), "float32"),
        SW: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bm, bk), "int8")
            w = T.alloc_shared((bn, bk), "int8")
            acc = T.alloc_fragment((bm, bn), "int32")
            y = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // bk, num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(W[bx * bn, k * bk], w)
                T.gemm(a, w, acc, transpose_B=True)
            for i, j in T.Parallel(bm, bn):
                y[i, j] = T.cast(acc[i, j], "float32") * SA[by * bm + i] * SW[bx * bn + j]
            T.copy(y, Y[by * bm, bx * bn])

    return linear


def main(M=128, N=192, K=256):
    x = torch.randn(M, K, dtype=torch.float16, device="cuda")
    w = torch.randn(N, K, dtype=torch.float16, device="cuda")

    quantize_x, quantize_w = quantize_rows(M, K), quantize_rows(N, K)
    xq, sx = quantize_x(x)
    wq, sw = quantize_w(w)
    y = int8_linear(M, N, K)(xq, wq, sx, sw)

    dequantized = (xq.float() * sx[:, None]) @ (wq.float() * sw[:, None]).T
    torch.testing.assert_close(y.float(), dequantized, rtol=1e-2, atol=1e-1)
    print("int8 linear ok")


if __name__ == "__main__":
    main()
