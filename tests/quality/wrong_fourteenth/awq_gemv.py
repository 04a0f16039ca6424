"""y = dequant(W) x for AWQ checkpoints: eight 4-bit codes a word, in the order 0 2 4 6 1 3 5 7."""
import torch
import tilelang
import tilelang.language as T

ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # nibble p of a word holds column ORDER[p] of its eight


@tilelang.jit
def awq_gemv(QW, S, Z, x, y, group: int = 32, BN: int = 16, BK: int = 64):
    N, KW, NG, K = T.const("N, KW, NG, K")
    QW: T.Tensor[[N, KW], T.int32]
    S: T.Tensor[[N, NG], T.float32]
    Z: T.Tensor[[N, NG], T.int32]
    x: T.Tensor[[K], T.float32]
    y: T.Tensor[[N], T.float32]

    with T.Kernel(T.ceildiv(N, BN), threads=128) as bn:
        prod = T.alloc_fragment((BN, BK), T.float32)
        part = T.alloc_fragment((BN,), T.float32)
        acc = T.alloc_fragment((BN,), T.float32)
        T.clear(acc)
        for ko in T.serial(T.ceildiv(K, BK)):
            for i, j in T.Parallel(BN, BK):
                n = bn * BN + i
                k = ko * BK + j
                if n < N and k < K:
                    lane = k % 8
                    nib = (lane % 4) * 2 + lane // 4
                    code = (QW[n, k // 8] >> (4 * nib)) & 15
                    w = T.cast(code - Z[n, k // group], "float32") * S[n, k // group]
                    prod[i, j] = w * x[k]
                else:
                    prod[i, j] = 0.0
            T.reduce_sum(prod, part, dim=1)
            for i in T.Parallel(BN):
                acc[i] += part[i]
        for i in T.Parallel(BN):
            if bn * BN + i < N:
                y[bn * BN + i] = acc[i]


def pack(codes):
    """(N, K) codes in 0..15 -> (N, K / 8) int32 words."""
    words = torch.zeros(codes.shape[0], codes.shape[1] // 8, dtype=torch.int64)
    eights = codes.view(codes.shape[0], -1, 8).to(torch.int64)
    for p, col in enumerate(ORDER):
        words |= eights[:, :, col] << (4 * p)
    words = torch.where(words >= 2**31, words - 2**32, words)
    return words.to(torch.int32)


def dequantize(codes, scale, zero, group):
    s = scale.repeat_interleave(group, dim=1)
    z = zero.repeat_interleave(group, dim=1)
    return (codes - z).float() * s


if __name__ == "__main__":
    torch.manual_seed(1)
    N, K, group = 72, 256, 32
    codes = torch.randint(0, 16, (N, K))
    scale = torch.rand(N, K // group) * 0.1 + 0.01
    zero = torch.randint(6, 10, (N, K // group))
    x = torch.randn(K)
    want = dequantize(codes, scale, zero, group) @ x

    y = torch.zeros(N, device="cuda")
    awq_gemv(
        pack(codes).to(device="cuda"),
        scale.to(device="cuda"),
        zero.to(torch.int32).to(device="cuda"),
        x.to(device="cuda"),
        y,
        group=group,
    )
    torch.testing.assert_close(y.cpu(), want, rtol=1e-4, atol=1e-4)
    print("awq gemv ok")
