"""GEMM with 4-bit weights, a scale and a zero point for every group of 32 along K."""

import tilelang
import tilelang.language as T
import torch

GROUP = 32


@tilelang.jit(out_idx=[4])
def matmul_w4(M, N, K, bm=64, bn=64, bk=64):
    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float16"),
        Packed: T.Tensor((N, K // 2), "uint8"),
        Scale: T.Tensor((N, K // GROUP), "float16"),
        Zero: T.Tensor((N, K // GROUP), "float16"),
        Y: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            x = T.alloc_shared((bm, bk), "float16")
            packed = T.alloc_shared((bn, bk // 2), "uint8")
            w = T.alloc_shared((bn, bk), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for ko in T.serial(K // bk):
                T.copy(X[by * bm, ko * bk], x)
                T.copy(Packed[bx * bn, ko * (bk // 2)], packed)
                for n, k in T.Parallel(bn, bk):
                    nibble = (T.Cast("int32", packed[n, k // 2]) >> ((k % 2) * 4)) & 15
                    g = (ko * bk + k) // GROUP
                    w[n, k] = T.Cast("float16", nibble) * Scale[bx * bn + n, g] - Zero[bx * bn + n, g]  # BUG
                T.gemm(x, w, acc, transpose_B=True)
            T.copy(acc, Y[by * bm, bx * bn])

    return main


def dequantize(packed, scale, zero):
    low, high = packed & 15, packed >> 4
    q = torch.stack([low, high], dim=-1).reshape(packed.shape[0], -1).float()
    return (q - zero.float().repeat_interleave(GROUP, 1)) * scale.float().repeat_interleave(GROUP, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    M, N, K = 128, 128, 256
    x = torch.randn(M, K, device="cuda", dtype=torch.float16)
    packed = torch.randint(0, 256, (N, K // 2), device="cuda", dtype=torch.uint8)
    scale = (torch.rand(N, K // GROUP, device="cuda") * 0.05 + 0.01).half()
    zero = torch.randint(6, 10, (N, K // GROUP), device="cuda").half()
    y = matmul_w4(M, N, K)(x, packed, scale, zero)
    torch.testing.assert_close(y.float(), x.float() @ dequantize(packed, scale, zero).t(), rtol=1e-2, atol=5e-2)
    print("w4a16 ok")
