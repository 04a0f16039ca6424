"""Masked log-sum-exp over chunks; fully masked rows must give -inf and not NaN."""
import torch
import tilelang
import tilelang.language as T


def lse_kernel(M, N, block_M=8, chunk=32):
    neg_inf = -T.infinity("float32")

    @T.prim_func
    def lse(
        X: T.Tensor((M, N), "float32"),
        Mask: T.Tensor((M, N), "int8"),
        Out: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, chunk), "float32")
            cmax = T.alloc_fragment((block_M,), "float32")
            csum = T.alloc_fragment((block_M,), "float32")
            mx = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            ref = T.alloc_fragment((block_M,), "float32")

            T.fill(mx, neg_inf)
            T.clear(total)
            for c in T.serial(T.ceildiv(N, chunk)):
                for i, j in T.Parallel(block_M, chunk):
                    if bx * block_M + i < M and c * chunk + j < N:
                        x[i, j] = T.if_then_else(
                            Mask[bx * block_M + i, c * chunk + j] != 0, X[bx * block_M + i, c * chunk + j], neg_inf
                        )
                    else:
                        x[i, j] = neg_inf
                T.reduce_max(x, cmax, dim=1)
                for i in T.Parallel(block_M):
                    cmax[i] = T.max(cmax[i], mx[i])
                    ref[i] = T.if_then_else(cmax[i] == neg_inf, 0.0, cmax[i])
                for i, j in T.Parallel(block_M, chunk):
                    x[i, j] = T.exp(x[i, j] - ref[i])
                T.reduce_sum(x, csum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp(mx[i] - ref[i]) + csum[i]
                    mx[i] = cmax[i]
            for i in T.Parallel(block_M):
                if bx * block_M + i < M:
                    Out[bx * block_M + i] = T.if_then_else(mx[i] == neg_inf, neg_inf, mx[i] + T.log(total[i]))

    return lse


def lse_ref(x, mask):
    return torch.logsumexp(x.masked_fill(mask == 0, float("-inf")), dim=-1)


def main():
    torch.manual_seed(0)
    for M, N in [(16, 128), (21, 100), (5, 7)]:
        x = torch.randn(M, N, device="cuda") * 8
        mask = (torch.rand(M, N, device="cuda") < 0.3).to(torch.int8)
        mask[1] = 0
        mask[2, : N // 2] = 0
        mask[3] = 0
        mask[3, N - 1] = 1
        out = tilelang.compile(lse_kernel(M, N), out_idx=[2])(x, mask)
        ref = lse_ref(x, mask)
        assert torch.equal(torch.isinf(out), torch.isinf(ref)), "rows with -inf differ"
        fin = torch.isfinite(ref)
        torch.testing.assert_close(out[fin], ref[fin], rtol=1e-5, atol=1e-5)
        print(f"{M}x{N} ok")


if __name__ == "__main__":
    main()
