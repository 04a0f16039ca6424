"""fp8 product with one scale per row and 64 columns of A, and per 64 x 64 block of B."""

import tilelang
import tilelang.language as T
import torch

GROUP = 64


@tilelang.jit(out_idx=[4])
def scaled_gemm(M, N, K, block_M=64):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        SA: T.Tensor((M, K // GROUP), "float32"),
        SB: T.Tensor((N // GROUP, K // GROUP), "float32"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(N // GROUP, M // block_M, threads=128) as (bx, by):
            a = T.alloc_shared((block_M, GROUP), "float8_e4m3fn")
            b = T.alloc_shared((GROUP, GROUP), "float8_e4m3fn")
            part = T.alloc_fragment((block_M, GROUP), "float32")
            acc = T.alloc_fragment((block_M, GROUP), "float32")
            T.clear(acc)
            for ko in T.Pipelined(K // GROUP, num_stages=2):
                T.copy(A[by * block_M, ko * GROUP], a)
                T.copy(B[bx * GROUP, ko * GROUP], b)
                T.clear(part)
                T.gemm(a, b, part, transpose_B=True)
                for i, j in T.Parallel(block_M, GROUP):
                    acc[i, j] += part[i, j] * SA[by * block_M + i, ko] * SB[ko, bx]  # BUG
            T.copy(acc, C[by * block_M, bx * GROUP])

    return main


def quantize(x, rows):
    """Scale groups of `rows` x GROUP to the range of e4m3."""
    r, c = x.shape
    g = x.view(r // rows, rows, c // GROUP, GROUP)
    s = g.abs().amax(dim=(1, 3)) / 448.0
    q = (g / s[:, None, :, None]).view(r, c).to(torch.float8_e4m3fn)
    return q, s.contiguous()


def dequantize(q, s, rows):
    return q.float() * s.repeat_interleave(rows, 0).repeat_interleave(GROUP, 1)


if __name__ == "__main__":
    torch.manual_seed(30)
    M, N, K = 64, 128, 128
    a = torch.randn(M, K, device="cuda") * torch.linspace(0.5, 4.0, K, device="cuda")
    b = torch.randn(N, K, device="cuda") * torch.linspace(0.2, 3.0, N, device="cuda")[:, None]
    qa, sa = quantize(a, 1)
    qb, sb = quantize(b, GROUP)
    c = scaled_gemm(M, N, K)(qa, qb, sa, sb)
    ref = dequantize(qa, sa, 1) @ dequantize(qb, sb, GROUP).t()
    torch.testing.assert_close(c.float(), ref, rtol=2e-2, atol=2e-1)
    print("fp8 gemm ok")
