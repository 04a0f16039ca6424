"""Half activations times int8 weights with one scale and zero point per column group of the weight."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[4])
def w8a16(M, N, K, group, block_M=32, block_N=32, block_K=64):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        Wq: T.Tensor((N, K), "int8"),
        Scale: T.Tensor((N, K // group), "float16"),
        Zero: T.Tensor((N, K // group), "int8"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            wq = T.alloc_shared((block_N, block_K), "int8")
            w = T.alloc_shared((block_N, block_K), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for ko in T.serial(K // block_K):
                T.copy(A[by * block_M, ko * block_K], a)
                T.copy(Wq[bx * block_N, ko * block_K], wq)
                for i, k in T.Parallel(block_N, block_K):
                    g = (ko * block_K + k) // group
                    level = T.cast(wq[i, k], "float32") - T.cast(Zero[bx * block_N + i, g], "float32")
                    w[i, k] = level * T.cast(Scale[bx * block_N + i, g], "float32")
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    torch.manual_seed(203)
    M, N, K, group = 40, 64, 128, 32
    a = torch.randn(M, K, device="cuda").half()
    wq = torch.randint(-128, 128, (N, K), device="cuda", dtype=torch.int8)
    scale = (0.001 + 0.003 * torch.rand(N, K // group, device="cuda")).half()
    zero = torch.randint(-8, 8, (N, K // group), device="cuda", dtype=torch.int8)
    c = w8a16(M, N, K, group)(a, wq, scale, zero)
    spread = lambda t: t.float().repeat_interleave(group, dim=1)
    ref = a.float() @ ((wq.float() - spread(zero)) * spread(scale)).t()
    torch.testing.assert_close(c.float(), ref, rtol=1e-2, atol=1e-2)
    print("w8a16 ok")
