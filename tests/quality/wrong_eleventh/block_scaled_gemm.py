"""GEMM with fine-grained scales as in DeepSeek-V3: A in 1 x G groups, B in G x G tiles, 8 bit codes.

The check has two parts: against the dequantized operands (tight) and against the original ones (loose).
"""
import torch
import tilelang
import tilelang.language as T

G = 64


def group_quantize(M, K, rows=8):
    @T.prim_func
    def quantize(X: T.Tensor((M, K), "float32"), Q: T.Tensor((M, K), "int8"), S: T.Tensor((M, K // G), "float32")):
        with T.Kernel(K // G, T.ceildiv(M, rows), threads=128) as (g, bm):
            x = T.alloc_fragment((rows, G), "float32")
            amax = T.alloc_fragment((rows,), "float32")
            for i, j in T.Parallel(rows, G):
                x[i, j] = T.if_then_else(bm * rows + i < M, X[T.min(bm * rows + i, M - 1), g * G + j], 0.0)
            T.reduce_absmax(x, amax, dim=1)
            for i in T.Parallel(rows):
                amax[i] = T.max(amax[i], 1e-6) / 127.0
            for i, j in T.Parallel(rows, G):
                if bm * rows + i < M:
                    Q[bm * rows + i, g * G + j] = T.cast(T.round(x[i, j] / amax[i]), "int8")
            for i in T.Parallel(rows):
                if bm * rows + i < M:
                    S[bm * rows + i, g] = amax[i]

    return tilelang.compile(quantize, out_idx=[1, 2])


def scaled_gemm(M, N, K, bM=32, bN=32):
    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), "int8"),
        SA: T.Tensor((M, K // G), "float32"),
        B: T.Tensor((N, K), "int8"),
        SB: T.Tensor((N // G, K // G), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            a_s = T.alloc_shared((bM, G), "int8")
            b_s = T.alloc_shared((bN, G), "int8")
            part = T.alloc_fragment((bM, bN), "int32")
            acc = T.alloc_fragment((bM, bN), "float32")
            T.clear(acc)
            for k in T.serial(K // G):
                T.copy(A[by * bM, k * G], a_s)
                T.copy(B[bx * bN, k * G], b_s)
                T.clear(part)
                T.gemm(a_s, b_s, part, transpose_B=True)
                # a column tile is narrower than G and lies within one scale tile of B
                for i, j in T.Parallel(bM, bN):
                    if by * bM + i < M:
                        acc[i, j] += T.cast(part[i, j], "float32") * SA[by * bM + i, k] * SB[bx * bN // G, k]
            for i, j in T.Parallel(bM, bN):
                if by * bM + i < M:
                    C[by * bM + i, bx * bN + j] = acc[i, j]

    return tilelang.compile(gemm, out_idx=[4])


def tile_quantize(w):
    N, K = w.shape
    tiles = w.view(N // G, G, K // G, G)
    s = tiles.abs().amax(dim=(1, 3)) / 127
    return torch.round(tiles / s[:, None, :, None]).to(torch.int8).view(N, K), s


def rel_err(got, want):
    return ((got - want).norm() / want.norm()).item()


if __name__ == "__main__":
    torch.manual_seed(10)
    for M, N, K in [(32, 128, 256), (50, 64, 192)]:
        # token magnitudes differ widely between groups, which is what the fine scales are for
        x = torch.randn(M, K, device="cuda") * torch.exp(2 * torch.randn(1, K // G, device="cuda")).repeat_interleave(G, dim=1)
        w = torch.randn(N, K, device="cuda")
        bq, sb = tile_quantize(w)
        aq, sa = group_quantize(M, K)(x)
        c = scaled_gemm(M, N, K)(aq, sa, bq, sb)
        a_deq = aq.float() * sa.repeat_interleave(G, dim=1)
        b_deq = bq.float() * sb.repeat_interleave(G, dim=0).repeat_interleave(G, dim=1)
        tight, loose = rel_err(c, (a_deq.double() @ b_deq.double().t()).float()), rel_err(c, x @ w.t())
        print(f"{M}x{N}x{K}: dequantized {tight:.1e}, original {loose:.1e}")
        assert tight < 1e-5 and loose < 3e-2
