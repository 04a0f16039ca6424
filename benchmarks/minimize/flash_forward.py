import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[3])
def flash_fwd(batch, heads, seq, dim, block_M=64, block_N=64, num_stages=1, threads=128):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = [batch, seq, heads, dim]
    dtype, accum = T.float16, T.float32

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_s = T.alloc_shared([block_M, dim], dtype)
            K_s = T.alloc_shared([block_N, dim], dtype)
            V_s = T.alloc_shared([block_N, dim], dtype)
            s = T.alloc_fragment([block_M, block_N], accum)
            p = T.alloc_fragment([block_M, block_N], dtype)
            o = T.alloc_fragment([block_M, dim], accum)
            m = T.alloc_fragment([block_M], accum)
            m_prev = T.alloc_fragment([block_M], accum)
            alpha = T.alloc_fragment([block_M], accum)
            rowsum = T.alloc_fragment([block_M], accum)
            l = T.alloc_fragment([block_M], accum)

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_s)
            T.clear(o)
            T.clear(l)
            T.fill(m, -T.infinity(accum))
            for k in T.Pipelined(T.ceildiv(seq, block_N), num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_s)
                T.clear(s)
                T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, rowsum, dim=1)
                for i in T.Parallel(block_M):
                    l[i] = l[i] * alpha[i] + rowsum[i]
                T.copy(s, p)
                o *= alpha
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_s)
                T.gemm(p, V_s, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] /= l[i]
            T.copy(o, O[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


def main():
    B, H, S, D = 1, 4, 256, 64
    kernel = flash_fwd(B, H, S, D)
    q, k, v = (torch.randn(B, S, H, D, device=DEVICE, dtype=torch.float16) for _ in range(3))
    out = kernel(q, k, v)
    ref = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)
    torch.testing.assert_close(out, ref, rtol=1e-2, atol=1e-2)
    print("flash forward ok")


if __name__ == "__main__":
    main()
