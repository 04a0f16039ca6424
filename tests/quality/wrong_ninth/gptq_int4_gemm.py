"""W4A16 GEMM in the GPTQ layout: qweight packed along K, qzeros packed along N, eight nibbles to an int32."""
import numpy as np
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def w4a16(M, N, K, group, block_M=16, block_N=32, block_K=32):
    assert group % block_K == 0

    @T.macro
    def dequant(QW, QZ, S, W_s, bx, ko):
        for kk, j in T.Parallel(block_K, block_N):
            k = ko * block_K + kk
            n = bx * block_N + j
            w = (QW[k // 8, n] >> ((k % 8) * 4)) & 0xF
            z = (QZ[k // group, n // 8] >> ((k % 8) * 4)) & 0xF
            W_s[kk, j] = T.cast(T.cast(w - z, "float32") * T.cast(S[k // group, n], "float32"), "float16")

    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float16"),
        QW: T.Tensor((K // 8, N), "int32"),
        QZ: T.Tensor((K // group, N // 8), "int32"),
        S: T.Tensor((K // group, N), "float16"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            X_s = T.alloc_shared((block_M, block_K), "float16")
            W_s = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for ko in T.serial(T.ceildiv(K, block_K)):
                T.copy(X[by * block_M, ko * block_K], X_s)
                dequant(QW, QZ, S, W_s, bx, ko)
                T.gemm(X_s, W_s, acc)
            T.copy(acc, Y[by * block_M, bx * block_N])

    return main


def pack(nibbles, axis):
    """uint8 nibbles -> int32 words, eight neighbours on `axis`, lowest first."""
    a = np.moveaxis(nibbles.astype(np.uint32), axis, 0)
    a = a.reshape(a.shape[0] // 8, 8, *a.shape[1:])
    words = np.zeros((a.shape[0],) + a.shape[2:], np.uint32)
    for b in range(8):
        words |= a[:, b] << np.uint32(4 * b)
    return np.ascontiguousarray(np.moveaxis(words, 0, axis)).view(np.int32)


def main():
    rng = np.random.default_rng(0)
    M, N, K, group = 32, 64, 128, 64
    w = rng.integers(0, 16, (K, N), dtype=np.uint8)
    zeros = rng.integers(5, 11, (K // group, N), dtype=np.uint8)
    scales = rng.uniform(0.01, 0.05, (K // group, N)).astype(np.float16)
    x = rng.standard_normal((M, K)).astype(np.float16)

    def dev(a):
        return torch.from_numpy(a).to("cuda")

    y = w4a16(M, N, K, group)(dev(x), dev(pack(w, 0)), dev(pack(zeros, 1)), dev(scales)).cpu().numpy()

    z_full = np.repeat(zeros.astype(np.float32), group, axis=0)
    s_full = np.repeat(scales.astype(np.float32), group, axis=0)
    want = x.astype(np.float32) @ ((w.astype(np.float32) - z_full) * s_full)
    err = np.abs(y - want).max() / np.abs(want).max()
    print(f"max error relative to the largest output: {err:.2e}")
    np.testing.assert_array_less(err, 5e-3)


if __name__ == "__main__":
    main()
