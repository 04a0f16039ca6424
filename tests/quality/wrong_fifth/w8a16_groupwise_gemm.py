import torch
import tilelang
import tilelang.language as T


def make_kernel(M, N, K, group_size, block_M=32, block_N=32, block_K=64, threads=128):
    groups = K // group_size

    @T.prim_func
    def w8a16(
        A: T.Tensor((M, K), "float16"),
        Wq: T.Tensor((N, K), "int8"),
        Scales: T.Tensor((N, groups), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), "float16")
            Wq_s = T.alloc_shared((block_N, block_K), "int8")
            W_s = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, ko * block_K], A_s)
                T.copy(Wq[bx * block_N, ko * block_K], Wq_s)
                for i, j in T.Parallel(block_N, block_K):
                    W_s[i, j] = (
                        T.cast(Wq_s[i, j], "float16") * Scales[bx * block_N + i, (ko * block_K) // group_size]
                    )  # BUG
                T.gemm(A_s, W_s, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return w8a16


def quantize(w, group_size):
    n, k = w.shape
    g = w.view(n, k // group_size, group_size)
    s = (g.abs().amax(-1) / 127.0).clamp(min=1e-5).half()
    q = (g / s.float().unsqueeze(-1)).round().clamp(-127, 127).to(torch.int8)
    return q.view(n, k).contiguous(), s


def dequantize(q, s, group_size):
    return q.float() * s.float().repeat_interleave(group_size, dim=1)


def run(M, N, K, group_size):
    a = torch.randn(M, K, device="cuda").half()
    # activation-aware smoothing leaves the groups with very different ranges
    spread = torch.rand(K // group_size, device="cuda").repeat_interleave(group_size) * 0.3 + 0.02
    q, s = quantize(torch.randn(N, K, device="cuda") * spread, group_size)
    kernel = tilelang.compile(make_kernel(M, N, K, group_size), out_idx=[3], target="cuda")
    c = kernel(a, q, s)
    ref = a.float() @ dequantize(q, s, group_size).t()
    diff = (c.float() - ref).abs().max().item()
    print(f"group {group_size}: max diff {diff:.4f}")
    assert torch.allclose(c.float(), ref, rtol=2e-2, atol=2e-2), "w8a16 mismatch"


if __name__ == "__main__":
    torch.manual_seed(0)
    run(64, 64, 256, group_size=128)
    run(64, 64, 256, group_size=32)
