"""Causal linear attention o_t = q_t . sum_{s <= t} k_s v_s^T, chunk by chunk with a running state."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def linear_attention(B, H, S, D, chunk=32):
    @T.prim_func
    def main(
        Q: T.Tensor((B, H, S, D), "float16"),
        K: T.Tensor((B, H, S, D), "float16"),
        V: T.Tensor((B, H, S, D), "float16"),
        O: T.Tensor((B, H, S, D), "float32"),
    ):
        with T.Kernel(H, B, threads=128) as (h, b):
            q = T.alloc_shared((chunk, D), "float16")
            k = T.alloc_shared((chunk, D), "float16")
            v = T.alloc_shared((chunk, D), "float16")
            scores = T.alloc_fragment((chunk, chunk), "float32")
            masked = T.alloc_shared((chunk, chunk), "float16")
            state = T.alloc_fragment((D, D), "float32")
            state_h = T.alloc_shared((D, D), "float16")
            o = T.alloc_fragment((chunk, D), "float32")
            T.clear(state)
            for c in T.serial(S // chunk):
                T.copy(Q[b, h, c * chunk, 0], q)
                T.copy(K[b, h, c * chunk, 0], k)
                T.copy(V[b, h, c * chunk, 0], v)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True)
                for i, j in T.Parallel(chunk, chunk):
                    masked[i, j] = T.if_then_else(j <= i, scores[i, j], 0.0)
                T.clear(o)
                T.gemm(masked, v, o)
                T.gemm(k, v, state, transpose_A=True)  # BUG
                T.copy(state, state_h)
                T.gemm(q, state_h, o)
                T.copy(o, O[b, h, c * chunk, 0])

    return main


def reference(q, k, v):
    q, k, v = q.float(), k.float(), v.float()
    scores = (q @ k.transpose(-1, -2)).tril()
    return scores @ v


if __name__ == "__main__":
    torch.manual_seed(9)
    B, H, S, D = 2, 2, 128, 32
    q, k, v = (0.3 * torch.randn(B, H, S, D, device="cuda") for _ in range(3))
    q, k, v = q.half(), k.half(), v.half()
    o = linear_attention(B, H, S, D)(q, k, v)
    torch.testing.assert_close(o, reference(q, k, v), rtol=2e-2, atol=2e-2)
    print("linear attention ok")
