"""First half of a SwiGLU block: silu(x Wg^T) * (x Wu^T), the gate and up weights stacked."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[2])
def swiglu(tokens, hidden, inter, block_M=32, block_N=32, block_K=64):
    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), "bfloat16"),
        W: T.Tensor((2 * inter, hidden), "bfloat16"),
        H: T.Tensor((tokens, inter), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(inter, block_N), T.ceildiv(tokens, block_M), threads=128) as (bx, by):
            x = T.alloc_shared((block_M, block_K), "bfloat16")
            wg = T.alloc_shared((block_N, block_K), "bfloat16")
            wu = T.alloc_shared((block_N, block_K), "bfloat16")
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(gate)
            T.clear(up)
            for ko in T.Pipelined(hidden // block_K, num_stages=2):
                T.copy(X[by * block_M, ko * block_K], x)
                T.copy(W[bx * block_N, ko * block_K], wg)
                T.copy(W[inter + bx * block_N, ko * block_K], wu)
                T.gemm(x, wg, gate, transpose_B=True)
                T.gemm(x, wu, up, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                gate[i, j] = gate[i, j] * (up[i, j] / (1.0 + T.exp(-up[i, j])))  # BUG
            T.copy(gate, H[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    torch.manual_seed(11)
    tokens, hidden, inter = 48, 128, 64
    x = torch.randn(tokens, hidden, device="cuda").bfloat16()
    w = (hidden**-0.5 * torch.randn(2 * inter, hidden, device="cuda")).bfloat16()
    h = swiglu(tokens, hidden, inter)(x, w)
    g, u = (x.float() @ w.float().t()).chunk(2, dim=-1)
    torch.testing.assert_close(h.float(), F.silu(g) * u, rtol=2e-2, atol=2e-2)
    print("swiglu ok")
