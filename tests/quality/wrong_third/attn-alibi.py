"""Flash attention with ALiBi slopes, causal, (batch, heads, seq, dim) layout."""

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.4426950408889634


@tilelang.jit(out_idx=[4])
def alibi_attention(batch, heads, seq, dim, block_M=64, block_N=64):
    sm_scale = dim**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq, dim), "float16"),
        K: T.Tensor((batch, heads, seq, dim), "float16"),
        V: T.Tensor((batch, heads, seq, dim), "float16"),
        Slopes: T.Tensor((heads,), "float32"),
        Out: T.Tensor((batch, heads, seq, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), batch * heads, threads=128) as (bx, bh):
            b = bh // heads
            h = bh % heads
            q_s = T.alloc_shared((block_M, dim), "float16")
            k_s = T.alloc_shared((block_N, dim), "float16")
            v_s = T.alloc_shared((block_N, dim), "float16")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            probs = T.alloc_fragment((block_M, block_N), "float16")
            out = T.alloc_fragment((block_M, dim), "float32")
            hi = T.alloc_fragment((block_M,), "float32")
            hi_old = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            norm = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[b, h, bx * block_M, 0], q_s)
            T.fill(out, 0)
            T.fill(norm, 0)
            T.fill(hi, -T.infinity("float32"))
            for t in T.Pipelined(bx + 1, num_stages=2):
                T.copy(K[b, h, t * block_N, 0], k_s)
                T.copy(V[b, h, t * block_N, 0], v_s)
                T.gemm(q_s, k_s, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    distance = t * block_N + j - (bx * block_M + i)
                    scores[i, j] = T.if_then_else(
                        distance <= 0,
                        scores[i, j] * (sm_scale * LOG2E) + Slopes[h] * T.cast(distance, "float32"),  # BUG
                        -T.infinity("float32"),
                    )
                T.copy(hi, hi_old)
                T.reduce_max(scores, hi, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] - hi[i])
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    norm[i] = norm[i] * T.exp2(hi_old[i] - hi[i]) + part[i]
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] = out[i, j] * T.exp2(hi_old[i] - hi[i])
                T.copy(scores, probs)
                T.gemm(probs, v_s, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] = out[i, j] / norm[i]
            T.copy(out, Out[b, h, bx * block_M, 0])

    return main


def ref_program(q, k, v, slopes):
    seq = q.size(2)
    pos = torch.arange(seq, device=q.device)
    gap = pos[None, :] - pos[:, None]
    s = q.float() @ k.float().transpose(-1, -2) * q.size(-1) ** -0.5
    s = s + slopes[None, :, None, None] * gap.float()
    s = s.masked_fill(gap > 0, float("-inf"))
    return torch.softmax(s, dim=-1) @ v.float()


torch.manual_seed(1234)
batch, heads, seq, dim = 1, 2, 128, 32
q = torch.randn(batch, heads, seq, dim, device="cuda", dtype=torch.float16)
k = torch.randn_like(q)
v = torch.randn_like(q)
slopes = torch.tensor([2.0 ** (-2 * (h + 1)) for h in range(heads)], device="cuda")
got = alibi_attention(batch, heads, seq, dim)(q, k, v, slopes)
torch.testing.assert_close(got.float(), ref_program(q, k, v, slopes), rtol=2e-2, atol=2e-2)
print("alibi attention matches")
