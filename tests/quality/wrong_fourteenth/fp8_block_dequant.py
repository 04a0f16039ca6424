"""float8_e4m3fn codes (as bytes) with one scale per 32 x 32 block -> float32, decoded by hand."""
import torch
import tilelang
import tilelang.language as T

BLK = 32


@T.macro
def decode_e4m3(code, out, i, j):
    sign = T.if_then_else((code >> 7) != 0, -1.0, 1.0)
    exponent = (code >> 3) & 15
    mantissa = T.cast(code & 7, "float32")
    # bias 7; exponent 0 means that there is no hidden one
    normal = (1.0 + mantissa / 8.0) * T.exp2(T.cast(exponent, "float32") - 7.0)
    tiny = mantissa / 8.0 * T.exp2(-7.0)
    out[i, j] = sign * T.if_then_else(exponent == 0, tiny, normal)


@tilelang.jit(out_idx=[2])
def block_dequant(M, N):
    @T.prim_func
    def main(
        Q: T.Tensor((M, N), "uint8"),
        S: T.Tensor((T.ceildiv(M, BLK), T.ceildiv(N, BLK)), "float32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BLK), T.ceildiv(M, BLK), threads=128) as (bn, bm):
            y = T.alloc_fragment((BLK, BLK), "float32")
            for i, j in T.Parallel(BLK, BLK):
                row = bm * BLK + i
                col = bn * BLK + j
                if row < M and col < N:
                    decode_e4m3(T.cast(Q[row, col], "int32"), y, i, j)
                    Y[row, col] = y[i, j] * S[bm, bn]

    return main


def quantize(x):
    """Scale each block to the full range, and round with torch's own cast."""
    M, N = x.shape
    mb, nb = -(-M // BLK), -(-N // BLK)
    padded = torch.nn.functional.pad(x, (0, nb * BLK - N, 0, mb * BLK - M))
    amax = padded.view(mb, BLK, nb, BLK).abs().amax(dim=(1, 3)).clamp(min=1e-12)
    scale = amax / 448.0
    full = scale.repeat_interleave(BLK, 0).repeat_interleave(BLK, 1)[:M, :N]
    return (x / full).to(torch.float8_e4m3fn), scale, full


def main():
    torch.manual_seed(6)
    for M, N, spread in [(64, 64, 0.0), (70, 100, 0.0), (96, 130, 4.0)]:
        # heavy tails: within a block the values span several decades
        x = torch.randn(M, N) * torch.exp(spread * torch.randn(M, N))
        q, scale, full = quantize(x)
        y = block_dequant(M, N)(q.view(torch.uint8).to(device="cuda"), scale.to(device="cuda"))
        ref = q.float() * full
        err = (y.cpu() - ref).abs() / ref.abs().clamp(min=1e-30)
        worst = err.max().item()
        print(f"{M}x{N}: largest relative error {worst:.2e}")
        assert worst < 1e-5, f"{int((err >= 1e-5).sum())} elements differ"


if __name__ == "__main__":
    main()
