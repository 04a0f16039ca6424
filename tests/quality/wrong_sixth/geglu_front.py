"""GEGLU front half: H = gelu_tanh(X Wg^T) * (X Wu^T), both weights packed in one (2F, K) tensor."""
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T

SQRT_2_OVER_PI = 0.7978845608028654


@tilelang.jit(out_idx=[2])
def geglu(M, inter, K, block_M=32, block_N=32, block_K=32):
    @T.macro
    def gelu_tanh(gate):
        for i, j in T.Parallel(block_M, block_N):
            v = gate[i, j]
            u = SQRT_2_OVER_PI * (v + 0.044715 * v * v * v)
            # 0.5 * (1 + tanh(u)) rewritten through the logistic function
            gate[i, j] = v / (1.0 + T.exp(-u))  # BUG

    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float16"),
        W: T.Tensor((2 * inter, K), "float16"),
        H: T.Tensor((M, inter), "float16"),
    ):
        with T.Kernel(T.ceildiv(inter, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            X_s = T.alloc_shared((block_M, block_K), "float16")
            Wg_s = T.alloc_shared((block_N, block_K), "float16")
            Wu_s = T.alloc_shared((block_N, block_K), "float16")
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[by * block_M, k * block_K], X_s)
                T.copy(W[bx * block_N, k * block_K], Wg_s)
                T.copy(W[inter + bx * block_N, k * block_K], Wu_s)
                T.gemm(X_s, Wg_s, gate, transpose_B=True)
                T.gemm(X_s, Wu_s, up, transpose_B=True)

            gelu_tanh(gate)
            for i, j in T.Parallel(block_M, block_N):
                up[i, j] = up[i, j] * gate[i, j]
            T.copy(up, H[by * block_M, bx * block_N])

    return main


def torch_geglu(x, w):
    g, u = (x.float() @ w.float().t()).chunk(2, dim=-1)
    return F.gelu(g, approximate="tanh") * u


def main():
    torch.manual_seed(0)
    M, inter, K = 64, 96, 128
    x = torch.randn(M, K, device="cuda").half()
    w = (torch.randn(2 * inter, K, device="cuda") / K**0.5).half()
    h = geglu(M, inter, K)(x, w)
    ref = torch_geglu(x, w)
    rel = (h.float() - ref).norm() / ref.norm()
    print(f"relative error {rel.item():.2e}")
    assert rel < 5e-3
    print("PASS")


if __name__ == "__main__":
    main()
