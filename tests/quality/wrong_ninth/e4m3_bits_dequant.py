"""Decode e4m3 bytes by hand (no fp8 type needed) with 2D block scales; checked against torch.float8_e4m3fn."""
import torch
import tilelang
import tilelang.language as T


def decode_e4m3(byte):
    """float32 value of an e4m3fn byte (a finite one) as an expression."""
    bits = T.cast(byte, "int32")
    expo = (bits >> 3) & 15
    mant = T.cast(bits & 7, "float32")
    sign = T.if_then_else((bits & 128) != 0, -1.0, 1.0)
    normal = (1.0 + mant / 8.0) * T.exp2(T.cast(expo - 7, "float32"))
    subnormal = mant * 2.0**-9
    return sign * T.if_then_else(expo == 0, subnormal, normal)


@tilelang.jit(out_idx=[2])
def dequant(rows, cols, sb=32, BM=16, BN=64):
    @T.prim_func
    def main(
        W: T.Tensor((rows, cols), "uint8"),
        S: T.Tensor((T.ceildiv(rows, sb), T.ceildiv(cols, sb)), "float32"),
        Y: T.Tensor((rows, cols), "float32"),
    ):
        with T.Kernel(T.ceildiv(cols, BN), T.ceildiv(rows, BM), threads=128) as (bx, by):
            for i, j in T.Parallel(BM, BN):
                r = by * BM + i
                c = bx * BN + j
                if r < rows and c < cols:
                    Y[r, c] = decode_e4m3(W[r, c]) * S[r // sb, c // sb]

    return main


def expand(s, rows, cols, sb):
    return s.repeat_interleave(sb, 0)[:rows].repeat_interleave(sb, 1)[:, :cols]


def every_byte():
    """All 254 finite codes, scale one."""
    codes = torch.tensor([b for b in range(256) if b & 127 != 127], dtype=torch.uint8).view(2, 127)
    got = dequant(2, 127)(codes.to("cuda"), torch.ones(1, 4, device="cuda")).cpu()
    torch.testing.assert_close(got, codes.view(torch.float8_e4m3fn).float(), rtol=1e-6, atol=0.0)


def blocks(rows, cols, sb):
    w = torch.randn(rows, cols) * 20
    fp8 = w.to(torch.float8_e4m3fn)
    s = torch.rand((rows + sb - 1) // sb, (cols + sb - 1) // sb) + 0.5
    got = dequant(rows, cols, sb=sb)(fp8.view(torch.uint8).to("cuda"), s.to("cuda")).cpu()
    torch.testing.assert_close(got, fp8.float() * expand(s, rows, cols, sb), rtol=1e-6, atol=1e-7)


def main():
    torch.manual_seed(12)
    every_byte()
    for shape in [(64, 128, 32), (50, 75, 32), (33, 130, 16)]:
        blocks(*shape)
        print(shape, "ok")


if __name__ == "__main__":
    main()
