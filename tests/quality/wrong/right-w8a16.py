"""fp16 activations times int8 weights with one scale per group of 32 along K; the scale is applied per weight."""

import tilelang
import tilelang.language as T
import torch


def w8a16(M, N, K, group=32, bm=64, bn=64, bk=64):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        W: T.Tensor((N, K), "int8"),
        S: T.Tensor((N, K // group), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            w8 = T.alloc_shared((bn, bk), "int8")
            w = T.alloc_shared((bn, bk), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.serial(K // bk):
                T.copy(A[by * bm, k * bk], a)
                T.copy(W[bx * bn, k * bk], w8)
                for i, j in T.Parallel(bn, bk):
                    w[i, j] = T.cast(w8[i, j], "float16") * S[bx * bn + i, (k * bk + j) // group]
                T.gemm(a, w, acc, transpose_B=True)
            T.copy(acc, C[by * bm, bx * bn])

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N, K, group = 64, 128, 256, 32
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    w = (torch.randn(N, K, device="cuda") * 40).clamp(-127, 127).to(torch.int8)
    s = torch.rand(N, K // group, device="cuda").half() * 0.01
    c = tilelang.compile(w8a16(M, N, K), out_idx=[3])(a, w, s)
    dequantized = w.float() * s.float().repeat_interleave(group, dim=1)
    torch.testing.assert_close(c.float(), a.float() @ dequantized.t(), rtol=1e-2, atol=1e-2)
    print("w8a16 ok")
