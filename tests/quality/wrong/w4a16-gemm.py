"""fp16 activations times int4 weights, two of them packed into a byte; a weight is stored plus 8."""

import tilelang
import tilelang.language as T
import torch


def w4a16(M, N, K, block_M=64, block_N=64, block_K=64):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        packed: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((N,), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            bytes_ = T.alloc_shared((block_N, block_K // 2), "uint8")
            w = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(packed[bx * block_N, k * block_K // 2], bytes_)
                for i, j in T.Parallel(block_N, block_K):
                    nibble = (T.cast(bytes_[i, j // 2], "int32") >> (j % 2 * 4)) & 15
                    w[i, j] = T.cast(nibble, "float16") * scales[bx * block_N + i]  # BUG
                T.gemm(a, w, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


def pack(q):
    """Values of -8 to 7, (N, K), as bytes (N, K // 2), the even column in the low half."""
    stored = (q + 8).to(torch.uint8)
    return stored[:, 0::2] | (stored[:, 1::2] << 4)


def main():
    torch.manual_seed(0)
    M, N, K = 64, 128, 256
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    q = torch.randn(N, K, device="cuda").mul(3).round().clamp(-8, 7).to(torch.int32)
    scales = torch.rand(N, device="cuda").half() * 0.1
    kernel = tilelang.compile(w4a16(M, N, K), out_idx=[3])
    c = kernel(a, pack(q), scales)
    expected = a.float() @ (q.float() * scales.float()[:, None]).t()
    torch.testing.assert_close(c.float(), expected, rtol=2e-2, atol=5e-2)
    print("w4a16 ok")


if __name__ == "__main__":
    main()
