"""4-bit GPTQ-like linear: weights packed two per byte along K, zero points two per byte along N."""
import torch
import tilelang
import tilelang.language as T


def w4_linear(M, N, K, group, block_M=16, block_N=32, block_K=32, num_stages=2):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        QW: T.Tensor((K // 2, N), "uint8"),
        QZ: T.Tensor((K // group, N // 2), "uint8"),
        SC: T.Tensor((K // group, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), "float16")
            QW_s = T.alloc_shared((block_K // 2, block_N), "uint8")
            B_s = T.alloc_shared((block_K, block_N), "float16")
            nib = T.alloc_fragment((block_K, block_N), "int32")
            zp = T.alloc_fragment((block_K, block_N), "int32")
            acc = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(acc)
            for ko in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, ko * block_K], A_s)
                T.copy(QW[ko * block_K // 2, bx * block_N], QW_s)
                for k, n in T.Parallel(block_K, block_N):
                    nib[k, n] = (T.cast(QW_s[k // 2, n], "int32") >> (4 * (k % 2))) & 15
                for k, n in T.Parallel(block_K, block_N):
                    zp[k, n] = (
                        T.cast(QZ[(ko * block_K + k) // group, (bx * block_N + n) // 2], "int32") >> (4 * (k % 2))  # BUG
                    ) & 15
                for k, n in T.Parallel(block_K, block_N):
                    B_s[k, n] = T.cast(
                        T.cast(nib[k, n] - (zp[k, n] + 1), "float32")
                        * SC[(ko * block_K + k) // group, bx * block_N + n],
                        "float16",
                    )
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


def pack(t, dim):
    lo, hi = (t.index_select(dim, torch.arange(s, t.shape[dim], 2, device=t.device)) for s in (0, 1))
    return (lo | (hi << 4)).to(torch.uint8)


def dequant(q, z, s, group):
    return (q.float() - (z.float() + 1).repeat_interleave(group, 0)) * s.repeat_interleave(group, 0)


def main():
    torch.manual_seed(0)
    M, N, K, group = 32, 64, 128, 64
    q = torch.randint(0, 16, (K, N), device="cuda", dtype=torch.int32)
    z = torch.randint(5, 10, (K // group, N), device="cuda", dtype=torch.int32)
    s = torch.rand(K // group, N, device="cuda") * 0.02 + 0.01
    a = torch.randn(M, K, device="cuda").half()

    kernel = tilelang.compile(w4_linear(M, N, K, group), out_idx=[-1])
    c = kernel(a, pack(q, 0), pack(z, 1), s)
    ref = a.float() @ dequant(q, z, s, group)
    torch.testing.assert_close(c, ref, rtol=1e-2, atol=1e-2)
    print("w4 linear ok")


if __name__ == "__main__":
    main()
