import math

import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def flash_fwd(B, H, HKV, S, D, block_M=32, block_N=32):
    group = H // HKV
    sm_scale = (1.0 / math.sqrt(D)) * 1.44269504
    dt, ac = "float16", "float32"

    @T.prim_func
    def fwd(
        Q: T.Tensor((B, S, H, D), dt),
        K: T.Tensor((B, S, HKV, D), dt),
        V: T.Tensor((B, S, HKV, D), dt),
        slopes: T.Tensor((H,), ac),
        O: T.Tensor((B, S, H, D), ac),
    ):
        with T.Kernel(T.ceildiv(S, block_M), H, B, threads=64) as (bx, h, b):
            Qs = T.alloc_shared((block_M, D), dt)
            Ks = T.alloc_shared((block_N, D), dt)
            Vs = T.alloc_shared((block_N, D), dt)
            S_f = T.alloc_fragment((block_M, block_N), ac)
            P = T.alloc_fragment((block_M, block_N), dt)
            acc = T.alloc_fragment((block_M, D), ac)
            m = T.alloc_fragment((block_M,), ac)
            m_prev = T.alloc_fragment((block_M,), ac)
            alpha = T.alloc_fragment((block_M,), ac)
            rowsum = T.alloc_fragment((block_M,), ac)
            l = T.alloc_fragment((block_M,), ac)

            T.copy(Q[b, bx * block_M : (bx + 1) * block_M, h, :], Qs)
            T.clear(acc)
            T.clear(l)
            T.fill(m, -1e30)
            for k in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_N), num_stages=1):
                T.copy(K[b, k * block_N : (k + 1) * block_N, h // group, :], Ks)
                T.clear(S_f)
                T.gemm(Qs, Ks, S_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    S_f[i, j] = T.if_then_else(
                        bx * block_M + i >= k * block_N + j,
                        S_f[i, j] * sm_scale + slopes[h] * (k * block_N + j - bx * block_M - i),  # BUG
                        -T.infinity(ac),
                    )
                T.copy(m, m_prev)
                T.reduce_max(S_f, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_prev[i] - m[i])
                for i, j in T.Parallel(block_M, block_N):
                    S_f[i, j] = T.exp2(S_f[i, j] - m[i])
                T.reduce_sum(S_f, rowsum, dim=1)
                for i in T.Parallel(block_M):
                    l[i] = l[i] * alpha[i] + rowsum[i]
                for i, j in T.Parallel(block_M, D):
                    acc[i, j] *= alpha[i]
                for i, j in T.Parallel(block_M, block_N):
                    P[i, j] = T.cast(S_f[i, j], dt)
                T.copy(V[b, k * block_N : (k + 1) * block_N, h // group, :], Vs)
                T.gemm(P, Vs, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, D):
                acc[i, j] /= l[i]
            T.copy(acc, O[b, bx * block_M : (bx + 1) * block_M, h, :])

    return fwd


def attention_ref(q, k, v, slopes):
    q, k, v = (t.float().transpose(1, 2) for t in (q, k, v))
    rep = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
    pos = torch.arange(q.shape[2], device=q.device)
    bias = slopes[:, None, None] * (pos[None, :] - pos[:, None])
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
    s = s.masked_fill(pos[None, :] > pos[:, None], float("-inf"))
    return (s.softmax(-1) @ v).transpose(1, 2)


if __name__ == "__main__":
    torch.manual_seed(0)
    B, H, HKV, S, D = 1, 4, 2, 64, 32
    q = torch.randn(B, S, H, D, device="cuda").half()
    k = torch.randn(B, S, HKV, D, device="cuda").half()
    v = torch.randn(B, S, HKV, D, device="cuda").half()
    slopes = torch.tensor([2.0 ** (-2 * (i + 1)) for i in range(H)], device="cuda")
    o = flash_fwd(B, H, HKV, S, D)(q, k, v, slopes)
    torch.testing.assert_close(o, attention_ref(q, k, v, slopes), rtol=1e-2, atol=1e-2)
    print("flash attention with alibi: pass")
