"""Unpack signed int4 weights, two to a byte with the even column low, and scale them per row."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def dequantize(N, K, block_N=16, block_K=64):
    @T.prim_func
    def main(
        Packed: T.Tensor((N, K // 2), "uint8"),
        Scale: T.Tensor((N,), "float32"),
        W: T.Tensor((N, K), "float16"),
    ):
        with T.Kernel(K // block_K, N // block_N, threads=128) as (bx, by):
            packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            w = T.alloc_fragment((block_N, block_K), "float16")
            T.copy(Packed[by * block_N, bx * block_K // 2], packed)
            for i, j in T.Parallel(block_N, block_K):
                nibble = (T.cast(packed[i, j // 2], "int32") >> (j % 2)) & 15  # BUG
                signed = T.if_then_else(nibble >= 8, nibble - 16, nibble)
                w[i, j] = T.cast(signed, "float32") * Scale[by * block_N + i]
            T.copy(w, W[by * block_N, bx * block_K])

    return main


def pack(q):
    low, high = q[:, 0::2] & 15, q[:, 1::2] & 15
    return (low | (high << 4)).to(torch.uint8)


if __name__ == "__main__":
    torch.manual_seed(16)
    N, K = 64, 256
    q = torch.randint(-8, 8, (N, K), device="cuda", dtype=torch.int32)
    scale = 0.01 + 0.1 * torch.rand(N, device="cuda")
    w = dequantize(N, K)(pack(q), scale)
    ref = (q.float() * scale[:, None]).half()
    torch.testing.assert_close(w, ref, rtol=1e-3, atol=1e-4)
    print("int4 ok")
