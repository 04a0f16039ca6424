"""4-bit GPTQ linear: y = x @ ((q - zero) * scale), eight nibbles per int32 word."""
import torch
import tilelang
import tilelang.language as T

PACK = 8  # nibbles per int32


def nibble(word, pos):
    return (word >> ((pos % PACK) * 4)) & 0xF


def gptq_linear(M, N, K, group, block_M=32, block_N=32, block_K=32):
    @T.prim_func
    def kernel(
        X: T.Tensor((M, K), "float16"),
        QWeight: T.Tensor((K // PACK, N), "int32"),
        QZeros: T.Tensor((K // group, N // PACK), "int32"),
        Scales: T.Tensor((K // group, N), "float16"),
        Y: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x_s = T.alloc_shared((block_M, block_K), "float16")
            w_s = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(acc)
            for ko in T.serial(K // block_K):
                T.copy(X[by * block_M, ko * block_K], x_s)
                for i, j in T.Parallel(block_K, block_N):
                    k = ko * block_K + i
                    n = bx * block_N + j
                    q = nibble(QWeight[k // PACK, n], k)
                    z = nibble(QZeros[k // group, n // PACK], k)
                    w_s[i, j] = T.cast(q - z, "float16") * Scales[k // group, n]
                T.gemm(x_s, w_s, acc)
            T.copy(acc, Y[by * block_M, bx * block_N])

    return kernel


def pack_rows(v):
    """(R, C) values 0..15 -> (R / 8, C) int32, row r in nibble r % 8."""
    v = v.view(-1, PACK, v.shape[1]).to(torch.int64)
    shifts = torch.arange(0, 4 * PACK, 4, device=v.device).view(1, PACK, 1)
    word = (v << shifts).sum(1)
    return torch.where(word >= 2**31, word - 2**32, word).to(torch.int32)


def pack_cols(v):
    return pack_rows(v.t().contiguous()).t().contiguous()


def main():
    torch.manual_seed(5)
    worst = 0.0
    for M, N, K, group in [(32, 64, 128, 32), (64, 32, 128, 64)]:
        q = torch.randint(0, 16, (K, N), device="cuda")
        z = torch.randint(6, 11, (K // group, N), device="cuda")
        scales = (torch.rand(K // group, N, device="cuda") * 0.02 + 0.01).half()
        x = torch.randn(M, K, device="cuda").half()

        w = (q - z.repeat_interleave(group, 0)).float() * scales.float().repeat_interleave(group, 0)
        ref = x.float() @ w

        lin = tilelang.compile(gptq_linear(M, N, K, group), out_idx=[-1])
        y = lin(x, pack_rows(q), pack_cols(z), scales)
        rel = ((y.float() - ref).norm() / ref.norm()).item()
        print(f"M={M} N={N} K={K} group={group}: rel err {rel:.2e}")
        worst = max(worst, rel)
    assert worst < 5e-3


if __name__ == "__main__":
    main()
