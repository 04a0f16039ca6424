import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(
    out_idx=[3],
    pass_configs={
        "tl.enable_fast_math": True,
        "tl.disable_warp_specialization": True,
    },
)
def flash_fwd(B, H, S, D, is_causal, block_M=64, block_N=64, num_stages=1, threads=128):
    scale = (1.0 / D) ** 0.5 * 1.44269504
    shape = [B, S, H, D]

    @T.prim_func
    def main(
        Q: T.Tensor(shape, T.float16),
        K: T.Tensor(shape, T.float16),
        V: T.Tensor(shape, T.float16),
        O: T.Tensor(shape, T.float16),
    ):
        with T.Kernel(T.ceildiv(S, block_M), H, B, threads=threads) as (bx, by, bz):
            Qs = T.alloc_shared([block_M, D], T.float16)
            Ks = T.alloc_shared([block_N, D], T.float16)
            Vs = T.alloc_shared([block_N, D], T.float16)
            s = T.alloc_fragment([block_M, block_N], T.float32)
            p = T.alloc_fragment([block_M, block_N], T.float16)
            o = T.alloc_fragment([block_M, D], T.float32)
            m = T.alloc_fragment([block_M], T.float32)
            m_prev = T.alloc_fragment([block_M], T.float32)
            alpha = T.alloc_fragment([block_M], T.float32)
            rs = T.alloc_fragment([block_M], T.float32)
            l = T.alloc_fragment([block_M], T.float32)

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Qs)
            T.fill(o, 0)
            T.fill(l, 0)
            T.fill(m, -T.infinity(T.float32))
            end = T.ceildiv((bx + 1) * block_M, block_N) if is_causal else T.ceildiv(S, block_N)
            for k in T.Pipelined(end, num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], Ks)
                if is_causal:
                    for i, j in T.Parallel(block_M, block_N):
                        s[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(T.float32))
                else:
                    T.clear(s)
                T.gemm(Qs, Ks, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, rs, dim=1)
                for i in T.Parallel(block_M):
                    l[i] = l[i] * alpha[i] + rs[i]
                T.copy(s, p)
                for i, j in T.Parallel(block_M, D):
                    o[i, j] *= alpha[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], Vs)
                T.gemm(p, Vs, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, D):
                o[i, j] /= l[i]
            T.copy(o, O[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


if __name__ == "__main__":
    B, H, S, D = 2, 8, 512, 64
    q, k, v = (torch.randn(B, S, H, D, device=DEVICE, dtype=torch.float16) for _ in range(3))
    for causal in (False, True):
        o = flash_fwd(B, H, S, D, causal)(q, k, v)
        ref = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=causal).transpose(1, 2)
        torch.testing.assert_close(o, ref, rtol=1e-2, atol=1e-2)
        print("causal" if causal else "full", "passed")
