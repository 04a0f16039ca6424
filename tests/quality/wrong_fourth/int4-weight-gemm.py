"""Half-precision activations times signed int4 weights, two to a byte, one scale per group of 32."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def w4a16(M, N, K, group, block_M=32, block_N=32, block_K=64):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        Packed: T.Tensor((N, K // 2), "uint8"),
        Scale: T.Tensor((N, K // group), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            P_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            S_shared = T.alloc_shared((block_N, block_K // group), "float16")
            nibble = T.alloc_fragment((block_N, block_K), "int32")
            W_shared = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(Packed[bx * block_N, k * block_K // 2], P_shared)
                T.copy(Scale[bx * block_N, k * block_K // group], S_shared)
                for i, j in T.Parallel(block_N, block_K):
                    nibble[i, j] = (T.Cast("int32", P_shared[i, j // 2]) >> (4 * (j % 2))) & 15
                for i, j in T.Parallel(block_N, block_K):
                    W_shared[i, j] = T.Cast("float16", nibble[i, j]) * S_shared[i, j // group]  # BUG
                T.gemm(A_shared, W_shared, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    torch.manual_seed(44)
    M, N, K, group = 32, 64, 128, 32
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    q = torch.randint(-8, 8, (N, K), device="cuda", dtype=torch.int32)
    scale = (0.02 + 0.05 * torch.rand(N, K // group, device="cuda")).half()
    low, high = q[:, 0::2] & 15, q[:, 1::2] & 15
    packed = (low | (high << 4)).to(torch.uint8)
    c = w4a16(M, N, K, group)(a, packed, scale)
    w = (q.half() * scale.repeat_interleave(group, dim=1)).float()
    torch.testing.assert_close(c, a.float() @ w.T, rtol=1e-2, atol=1e-2)
    print("w4a16 ok")
