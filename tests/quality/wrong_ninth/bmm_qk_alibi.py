"""Attention scores with ALiBi: S[b, h] = scale * Q[b, h] @ K[b, h]^T + slope[h] * (j - i)."""
import torch
import tilelang
import tilelang.language as T


def alibi_slopes(heads):
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)])


@tilelang.jit(out_idx=[3])
def qk_scores(batch, heads, Tq, Tk, D, block_M=32, block_N=32, block_D=32):
    scale = D**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, Tq, D), "float16"),
        K: T.Tensor((batch, heads, Tk, D), "float16"),
        Slope: T.Tensor((heads,), "float32"),
        S: T.Tensor((batch, heads, Tq, Tk), "float32"),
    ):
        with T.Kernel(T.ceildiv(Tk, block_N), T.ceildiv(Tq, block_M), batch * heads, threads=128) as (bx, by, bz):
            Q_s = T.alloc_shared((block_M, block_D), "float16")
            K_s = T.alloc_shared((block_N, block_D), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")

            b = bz // heads
            h = bz % heads
            T.clear(acc)
            for d in T.Pipelined(T.ceildiv(D, block_D), num_stages=2):
                T.copy(Q[b, h, by * block_M : (by + 1) * block_M, d * block_D : (d + 1) * block_D], Q_s)
                T.copy(K[b, h, bx * block_N : (bx + 1) * block_N, d * block_D : (d + 1) * block_D], K_s)
                T.gemm(Q_s, K_s, acc, transpose_B=True)

            for i, j in T.Parallel(block_M, block_N):
                dist = T.cast(bx * block_N + j - (by * block_M + i), "float32")
                acc[i, j] = acc[i, j] * scale + Slope[b] * dist
            T.copy(acc, S[b, h, by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N])

    return main


def reference(q, k, slope):
    s = torch.einsum("bhqd,bhkd->bhqk", q.float(), k.float()) * q.shape[-1] ** -0.5
    i = torch.arange(q.shape[2], device=q.device)[:, None]
    j = torch.arange(k.shape[2], device=q.device)[None, :]
    return s + slope[None, :, None, None] * (j - i)


def main():
    torch.manual_seed(3)
    for batch, heads, Tq, Tk, D in [(1, 1, 64, 64, 32), (2, 4, 64, 96, 64)]:
        q = torch.randn(batch, heads, Tq, D, device="cuda").half()
        k = torch.randn(batch, heads, Tk, D, device="cuda").half()
        slope = alibi_slopes(heads).to(q.device)
        s = qk_scores(batch, heads, Tq, Tk, D)(q, k, slope)
        torch.testing.assert_close(s, reference(q, k, slope), rtol=1e-2, atol=1e-2)
        print(f"batch={batch} heads={heads} ok")


if __name__ == "__main__":
    main()
