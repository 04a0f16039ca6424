"""W8A8 linear: activations quantized on the fly per token (asymmetric), weights per output channel (symmetric)."""
import torch
import tilelang
import tilelang.language as T


def quantize_rows(M, K, block_M=8):
    @T.prim_func
    def kernel(
        X: T.Tensor((M, K), "float32"),
        Q: T.Tensor((M, K), "int8"),
        Scale: T.Tensor((M,), "float32"),
        Zero: T.Tensor((M,), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, K), "float32")
            lo = T.alloc_fragment((block_M,), "float32")
            hi = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_min(x, lo, dim=1)
            T.reduce_max(x, hi, dim=1)
            for i in T.Parallel(block_M):
                lo[i] = T.min(lo[i], 0.0)
                hi[i] = T.max((T.max(hi[i], 0.0) - lo[i]) / 255.0, 1e-8)  # from here on the step
            for i in T.Parallel(block_M):
                if bx * block_M + i < M:
                    Scale[bx * block_M + i] = hi[i]
                    Zero[bx * block_M + i] = T.cast(T.round(-lo[i] / hi[i]), "int32")
            for i, k in T.Parallel(block_M, K):
                if bx * block_M + i < M:
                    code = T.round(x[i, k] / hi[i]) + T.round(-lo[i] / hi[i])
                    # 0 .. 255, stored with an offset so that the tensor cores see signed bytes
                    Q[bx * block_M + i, k] = T.cast(T.min(T.max(code, 0.0), 255.0) - 128.0, "int8")

    return kernel


def weight_row_sums(N, K):
    @T.prim_func
    def kernel(W: T.Tensor((N, K), "int8"), S: T.Tensor((N,), "int32")):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            acc = T.alloc_fragment((32,), "int32")
            T.clear(acc)
            for k in T.serial(K):
                for i in T.Parallel(32):
                    acc[i] += T.cast(W[bx * 32 + i, k], "int32")
            T.copy(acc, S[bx * 32])

    return kernel


def linear_int8(M, N, K, bM=32, bN=32, bK=64):
    @T.prim_func
    def kernel(
        Q: T.Tensor((M, K), "int8"),
        W: T.Tensor((N, K), "int8"),
        Scale: T.Tensor((M,), "float32"),
        Zero: T.Tensor((M,), "int32"),
        WScale: T.Tensor((N,), "float32"),
        WSum: T.Tensor((N,), "int32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            q_s = T.alloc_shared((bM, bK), "int8")
            w_s = T.alloc_shared((bN, bK), "int8")
            acc = T.alloc_fragment((bM, bN), "int32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                T.copy(Q[by * bM, k * bK], q_s)
                T.copy(W[bx * bN, k * bK], w_s)
                T.gemm(q_s, w_s, acc, transpose_B=True)
            for i, j in T.Parallel(bM, bN):
                m, n = by * bM + i, bx * bN + j
                if m < M:
                    exact = acc[i, j] - Zero[m] * WSum[n]
                    Y[m, n] = T.cast(exact, "float32") * Scale[m] * WScale[n]

    return kernel


def w8a8(x, wq, wscale):
    (M, K), N = x.shape, wq.shape[0]
    q, scale, zero = tilelang.compile(quantize_rows(M, K), out_idx=[1, 2, 3])(x)
    wsum = tilelang.compile(weight_row_sums(N, K), out_idx=[1])(wq)
    return tilelang.compile(linear_int8(M, N, K), out_idx=[6])(q, wq, scale, zero, wscale, wsum)


def snr_db(got, want):
    return (10 * torch.log10(want.pow(2).sum() / (got - want).pow(2).sum())).item()


def main():
    torch.manual_seed(1)
    for M, N, K in [(32, 64, 128), (40, 96, 256)]:
        x = torch.nn.functional.gelu(torch.randn(M, K, device="cuda") * 2)
        w = torch.randn(N, K, device="cuda")
        wscale = w.abs().amax(dim=1) / 127
        wq = torch.round(w / wscale[:, None]).to(torch.int8)
        want = x @ (wq.float() * wscale[:, None]).t()
        snr = snr_db(w8a8(x, wq, wscale), want)
        print(f"{M}x{N}x{K}: {snr:.1f} dB")
        assert snr > 35, "quantized linear is off"


main()
