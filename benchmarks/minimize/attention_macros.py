"""Flash attention forward with the three steps written as macros."""
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

LOG2E = 1.44269504


@T.macro
def scores_(K, Q_s, K_s, s, k, by, bz, block_N):
    T.copy(K[bz, by, k * block_N : (k + 1) * block_N, :], K_s)
    T.clear(s)
    T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)


@T.macro
def softmax_(s, s_cast, m, m_prev, alpha, rowsum, l, scale, block_M, block_N):
    T.copy(m, m_prev)
    T.reduce_max(s, m, dim=1, clear=False)
    for i in T.Parallel(block_M):
        alpha[i] = T.exp2((m_prev[i] - m[i]) * scale)
    for i, j in T.Parallel(block_M, block_N):
        s[i, j] = T.exp2((s[i, j] - m[i]) * scale)
    T.reduce_sum(s, rowsum, dim=1)
    for i in T.Parallel(block_M):
        l[i] = l[i] * alpha[i] + rowsum[i]
    T.copy(s, s_cast)


@T.macro
def accumulate_(V, V_s, s_cast, o, alpha, k, by, bz, block_M, block_N, dim):
    for i, j in T.Parallel(block_M, dim):
        o[i, j] *= alpha[i]
    T.copy(V[bz, by, k * block_N : (k + 1) * block_N, :], V_s)
    T.gemm(s_cast, V_s, o, policy=T.GemmWarpPolicy.FullRow)


@tilelang.jit(out_idx=[3])
def mha(batch, heads, seq, dim, block_M=128, block_N=64, threads=256):
    scale = LOG2E / dim**0.5

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq, dim), "float16"),
        K: T.Tensor((batch, heads, seq, dim), "float16"),
        V: T.Tensor((batch, heads, seq, dim), "float16"),
        O: T.Tensor((batch, heads, seq, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_s = T.alloc_shared((block_M, dim), "float16")
            K_s = T.alloc_shared((block_N, dim), "float16")
            V_s = T.alloc_shared((block_N, dim), "float16")
            s = T.alloc_fragment((block_M, block_N), "float32")
            s_cast = T.alloc_fragment((block_M, block_N), "float16")
            o = T.alloc_fragment((block_M, dim), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_prev = T.alloc_fragment((block_M,), "float32")
            alpha = T.alloc_fragment((block_M,), "float32")
            rowsum = T.alloc_fragment((block_M,), "float32")
            l = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_s)
            T.clear(o)
            T.clear(l)
            T.fill(m, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(seq, block_N), num_stages=2):
                scores_(K, Q_s, K_s, s, k, by, bz, block_N)
                softmax_(s, s_cast, m, m_prev, alpha, rowsum, l, scale, block_M, block_N)
                accumulate_(V, V_s, s_cast, o, alpha, k, by, bz, block_M, block_N, dim)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] /= l[i]
            T.copy(o, O[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return main


if __name__ == "__main__":
    B, H, S, D = 2, 4, 256, 64
    q, k, v = (torch.randn(B, H, S, D, device=DEVICE, dtype=torch.float16) for _ in range(3))
    out = mha(B, H, S, D)(q, k, v)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v), rtol=1e-2, atol=1e-2)
    print("mha ok")
